"""Strings that remember where each of their characters was written.

A `Text` is a `str`; pieces of it point at string literals of the submission (or at lines of a sidecar). Joining,
slicing, replacing and formatting keep the pieces, so that a finding in CUDA text that was put together at run time
still points at the line that holds it.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable
from typing import Any

from kbh_lint.base.records import dataclass

MAX_TEXT = 4_000_000


@dataclass(frozen=True, slots=True)
class Piece:
    """Characters [start, end) of the text are characters [at, at + end - start) of `literal`'s value."""

    start: int
    end: int
    literal: Any  # a Literal or a FileText; a Doubt over characters that are not known
    at: int


class Text(str):
    """A string with the places of its characters."""

    __slots__ = ("pieces",)
    pieces: tuple[Piece, ...]

    def __new__(cls, value: str, pieces: Iterable[Piece] = ()) -> Text:
        self = super().__new__(cls, value)
        self.pieces = tuple(pieces)
        return self

    def origin(self, offset: int) -> tuple[str, int, int] | None:
        """(path, line, column), from 1, of a character; that of the nearest mapped one before it when it has none."""
        pieces = [p for p in self.pieces if type(p.literal) is not Doubt] if doubts(self) else self.pieces
        i = bisect.bisect_right(pieces, offset, key=lambda p: p.start) - 1
        if i < 0:
            if not pieces:
                return None
            i, offset = 0, pieces[0].start
        piece = pieces[i]
        inside = min(offset, max(piece.end - 1, piece.start))
        place: tuple[str, int, int] = piece.literal.place(piece.at + inside - piece.start)
        return place


@dataclass(frozen=True, slots=True)
class Here:
    """The one place of all characters of a piece: of the call that decoded them, or of what they were made from."""

    path: str
    line: int
    column: int

    def place(self, offset: int) -> tuple[str, int, int]:
        """(path, line, column), from 1, whatever the offset."""
        return self.path, self.line, self.column


@dataclass(frozen=True, slots=True, eq=False)
class Doubt:
    """The value that characters of a text stand for, which is not known."""

    value: Any


def doubts(text: object) -> list[Any]:
    """The unknown values from which parts of a text were made; none for values that are no text."""
    if not isinstance(text, Text):
        return []
    return [p.literal.value for p in text.pieces if type(p.literal) is Doubt]


def doubted(text: str, value: object) -> Text:
    """The text marked as made from the unknown `value`."""
    return Text(text, (*pieces_of(text), Piece(0, len(text), Doubt(value), 0)))


@dataclass(slots=True, eq=False)
class FileText:
    """A whole file as a literal; `first_line` is the line of the containing file where it starts."""

    path: str
    text: str
    first_line: int = 1
    starts: list[int] | None = None

    def place(self, offset: int) -> tuple[str, int, int]:
        """(path, line, column), from 1, of a character of the file."""
        if self.starts is None:
            self.starts = [0, *(m.end() for m in re.finditer("\n", self.text))]
        line = bisect.bisect_right(self.starts, offset) - 1
        return self.path, line + self.first_line, offset - self.starts[line] + 1


_PREFIX = re.compile(r"[rRbBuUfF]*")
_PLAIN = re.compile(r"""[^\\\n{}'"]+""")  # what stands in a literal for itself
_ESCAPE = re.compile(r"\\(?:\n|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|.)", re.S)
_SHOWN = re.compile(r"([^{}:!]*[^{}:!=<>]\s*=\s*)(?:![rsa])?(?::[^}]*)?\}$")


@dataclass(slots=True, eq=False)
class Literal:
    """A Python string literal (or several written side by side) and where it stands.

    Offsets into an f-string count the characters of its constant parts alone.

    `unit` is a PythonUnit; the place is the range of the whole expression in it. The table from value offsets to file
    places is made when it is first asked for.
    """

    unit: Any
    loc: tuple[Any, ...]
    table: list[tuple[int, int, int]] | None = None  # (value offset, line, column), one a run of plain characters

    def place(self, offset: int) -> tuple[str, int, int]:
        """(path, line, column), from 1, of a character of the literal's value."""
        if self.table is None:
            self.table = self._scan()
        i = bisect.bisect_right(self.table, offset, key=lambda row: row[0]) - 1
        value, line, column = self.table[max(i, 0)] if self.table else (0, self.loc[1], self.loc[2] + 1)
        return self.unit.path, line + self.unit.first_line - 1, column + max(offset - value, 0)

    def _scan(self) -> list[tuple[int, int, int]]:
        _, line, column, end_line, end_column = self.loc
        rows = self.unit.text.split("\n")[line - 1 : end_line]
        if not rows:
            return []
        first = self.unit.character(line, column)
        rows[-1] = rows[-1][: self.unit.character(end_line, end_column)]
        source = "\n".join(rows)
        table: list[tuple[int, int, int]] = []
        row, start_of_row = line, 0
        i, value = first, 0
        while i < len(source):
            char = source[i]
            if char == "\n":
                row, start_of_row, i = row + 1, i + 1, i + 1
            elif char == "#":
                i = source.find("\n", i) if "\n" in source[i:] else len(source)
            elif char in "rRbBuUfF\"'":
                prefix = _PREFIX.match(source, i)
                j = prefix.end() if prefix else i
                quote = source[j : j + 3] if source[j : j + 3] in ('"""', "'''") else source[j : j + 1]
                if quote[:1] not in ('"', "'"):
                    i += 1
                    continue
                prefixes = source[i:j].lower()
                i, value, row, start_of_row = self._body(
                    source, j + len(quote), quote, prefixes, value, row, start_of_row, table
                )
            else:
                i += 1
        return table

    @staticmethod
    def _body(
        source: str, i: int, quote: str, prefixes: str, value: int, row: int, start_of_row: int,
        table: list[tuple[int, int, int]],
    ) -> tuple[int, int, int, int]:  # fmt: skip
        raw, fields = "r" in prefixes, "f" in prefixes
        table.append((value, row, i - start_of_row + 1))
        while i < len(source):
            plain = _PLAIN.match(source, i)
            if plain is not None:
                value += plain.end() - i
                i = plain.end()
            if i >= len(source) or source.startswith(quote, i):
                break
            if fields and source[i] in "{}":
                if source[i : i + 2] in ("{{", "}}"):
                    i, value = i + 2, value + 1
                else:
                    end = _field_end(source, i)
                    shown = _SHOWN.match(source, i + 1, end)
                    value += len(shown[1]) if shown else 0  # `{name=}` puts "name=" into the text
                    if "\n" in source[i:end]:
                        row, start_of_row = row + source.count("\n", i, end), source.rindex("\n", i, end) + 1
                    i = end
                table.append((value, row, i - start_of_row + 1))
            elif source[i] == "\\":
                match = _ESCAPE.match(source, i)
                text = match.group() if match else source[i]
                if raw:
                    value += min(len(text), 2)
                    i += min(len(text), 2)
                    if text[1:2] == "\n":
                        row, start_of_row = row + 1, i
                        table.append((value, row, 1))
                    continue
                i += len(text)
                if text == "\\\n":
                    row, start_of_row = row + 1, i
                else:
                    value += 1
                table.append((value, row, i - start_of_row + 1))
            elif source[i] == "\n":
                i, value, row = i + 1, value + 1, row + 1
                start_of_row = i
                table.append((value, row, 1))
            else:
                i += 1
                value += 1
        return i + len(quote), value, row, start_of_row


def _field_end(source: str, start: int) -> int:
    """The index after the brace that closes the replacement field which opens at `start`."""
    depth = 0
    for i in range(start, len(source)):
        if source[i] == "{":
            depth += 1
        elif source[i] == "}":
            depth -= 1
            if depth <= 0:
                return i + 1
    return len(source)


def pieces_of(text: str) -> tuple[Piece, ...]:
    """The pieces of a string, none for a plain one."""
    return text.pieces if isinstance(text, Text) else ()


def concat(parts: Iterable[str]) -> str:
    """Joins texts into one that keeps the places of their characters; a plain string when none has places."""
    out: list[str] = []
    pieces: list[Piece] = []
    at = 0
    for part in parts:
        out.append(part)
        pieces.extend(Piece(p.start + at, p.end + at, p.literal, p.at) for p in pieces_of(part))
        at += len(part)
        if at > MAX_TEXT:
            raise ValueError("a string grew past the bound")
    joined = "".join(out)
    return Text(joined, pieces) if pieces else joined


def cut(text: str, start: int, end: int) -> str:
    """`text[start:end]`, which keeps the places of its characters."""
    value = str.__getitem__(text, slice(start, end))
    if not isinstance(text, Text):
        return value
    kept = [
        Piece(max(p.start, start) - start, min(p.end, end) - start, p.literal, p.at + max(start - p.start, 0))
        for p in text.pieces
        if p.start < end and p.end > start
    ]
    return Text(value, kept)


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    """`text.replace(old, new, count)`, which keeps the places of its characters."""
    if not isinstance(text, Text) and not isinstance(new, Text):
        return str.replace(text, old, new, count)
    if not old:
        return Text(str.replace(text, old, new, count), pieces_of(text)[:1])
    parts: list[str] = []
    at = 0
    while count != 0:
        found = str.find(text, old, at)
        if found < 0:
            break
        parts += [cut(text, at, found), new]
        at = found + len(old)
        count -= 1
    parts.append(cut(text, at, len(text)))
    return concat(parts)


def dedent(text: str) -> str:
    """`textwrap.dedent(text)`, which keeps the places of its characters."""
    margin: str | None = None
    lines = split_lines(text)
    for line in lines:
        body = str(line).rstrip("\n")
        if not body.strip():
            continue
        indent = body[: len(body) - len(body.lstrip())]
        if margin is None:
            margin = indent
        else:
            common = 0
            while common < min(len(margin), len(indent)) and margin[common] == indent[common]:
                common += 1
            margin = margin[:common]
    skip = len(margin or "")
    out: list[str] = []
    for line in lines:
        body = str(line)
        if not body.strip():
            out.append("\n" if body.endswith("\n") else "")
        else:
            out.append(cut(line, skip, len(line)))
    return concat(out)


def split_lines(text: str) -> list[str]:
    """The lines of `text`, ends kept, which keep the places of their characters."""
    out: list[str] = []
    at = 0
    for match in re.finditer("\n", text):
        out.append(cut(text, at, match.end()))
        at = match.end()
    if at < len(text):
        out.append(cut(text, at, len(text)))
    return out


def strip(text: str, chars: str | None, left: bool, right: bool) -> str:
    """As `strip`, `lstrip` and `rstrip` of strings; keeps the places of the characters."""
    plain = str(text)
    start = len(plain) - len(plain.lstrip(chars)) if left else 0
    end = len(plain.rstrip(chars)) if right else len(plain)
    return cut(text, start, max(end, start))
