"""Cutting text that does not parse into pieces that can be parsed on their own."""

from __future__ import annotations

import re

from kbh_lint.base.records import dataclass

_STOP = re.compile(
    r'"(?:[^"\\\n]+|\\.)*+"?|(?<![0-9A-Za-z])\'(?:[^\'\\\n]+|\\.)*+\''
    r'|R"([^()\\\s]{0,16})\(.*?(?:\)\1"|\Z)|[()\[\]{};]',
    re.S,
)
_MAX_PIECES = 5000
_NAMESPACE = re.compile(r"\s*(?:inline\s+)?namespace\b\s*((?:[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*)?)\s*\Z")


# What the grammar cannot read although it is sound: a macro of attributes from a header before a declaration, an empty
# default argument, and `using typename`.
_REPAIRS = (
    re.compile(
        r"(?<![\w.>:])_?[A-Z][A-Z0-9_]{3,}(?=\s+(?:void|int|float|double|bool|char|unsigned|static|inline|constexpr|auto"
        r"|const|template|explicit|__\w+|_?[A-Z][A-Z0-9_]{3,}\s+\w+)\b)"
    ),
    re.compile(r"=\s*\{\s*\}(?=\s*[,)])"),
    re.compile(r"(?<=\busing\s)typename\b"),
)


_UNSIGNED = re.compile(r"\bunsigned(?=\s*\()")


def repaired(text: str) -> str:
    """The text with constructs that the grammar is known to fail at blanked or replaced; its length stays the same."""
    for pattern in _REPAIRS:
        text = pattern.sub(lambda match: " " * len(match.group()), text)
    return _UNSIGNED.sub("uint32_t", text)


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of text up to a `;` or `}` outside all brackets. `body` is where the last block of it starts.

    A piece with a `namespace` is the range inside its braces; the pieces in it follow.
    """

    start: int
    end: int
    body: int | None = None
    namespace: str | None = None


def too_nested(text: str, limit: int) -> int | None:
    """The offset at which brackets first nest more than `limit` deep; None when they do not."""
    if text.count("(") + text.count("{") + text.count("[") <= limit:
        return None
    depth = 0
    for match in _STOP.finditer(text):
        char = match.group()
        if char in "([{":
            depth += 1
            if depth > limit:
                return match.start()
        elif char in ")]}":
            depth = max(depth - 1, 0)
    return None


def pieces(text: str, start: int = 0, end: int | None = None) -> list[Piece]:
    """The top-level pieces of the text from `start` to `end`; namespaces are opened, and their contents are pieces too.
    Unmatched brackets end with the range."""
    end = len(text) if end is None else end
    found: list[Piece] = []
    open_namespaces: list[tuple[int, str, int]] = []
    depth = 0
    begin, body = start, None
    for match in _STOP.finditer(text, start, end):
        char, at = match.group(), match.start()
        if char in "([{":
            if char == "{" and depth == 0:
                namespace = _NAMESPACE.match(text, begin, at)
                if namespace is not None:
                    name = "".join(namespace.group(1).split())
                    open_namespaces.append((at + 1, name, len(found)))
                    found.append(Piece(at + 1, end, None, name))
                    begin, body = at + 1, None
                    continue
                body = at
            depth += 1
        elif char in ")]}":
            if char == "}" and depth == 0 and open_namespaces:
                opened, name, index = open_namespaces.pop()
                found[index] = Piece(opened, at, None, name)
                begin, body = at + 1, None
                continue
            depth = max(depth - 1, 0)
            if char == "}" and depth == 0 and _ends_here(text, match.end(), end):
                found.append(Piece(begin, match.end(), body))
                begin, body = match.end(), None
        elif char == ";" and depth == 0:
            found.append(Piece(begin, match.end(), body))
            begin, body = match.end(), None
        if len(found) >= _MAX_PIECES:
            break
    if text[begin:end].strip():
        found.append(Piece(begin, end, body))
    return found


_AFTER = re.compile(r"\s*(?:[;,=)(.\[?:&|<>+*/-]|else\b|while\b|catch\b|[A-Za-z_]\w*\s*(?:;|\[|=))")


def _ends_here(text: str, at: int, end: int) -> bool:
    """Whether what follows a `}` starts something new: not `} name;`, `} else`, `};`."""
    return _AFTER.match(text, at, end) is None
