"""Cells in a file of JSON lines: a check that was cut goes on where it ended, and shards of several machines add up."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from kbh_lint.base.records import dataclass
from kbh_lint.rewrite.cells import Cell

if TYPE_CHECKING:
    from kbh_lint.rewrite.cells import Case, Column

MAX_BYTES = 1 << 30
MAX_LINE = 1 << 16
STATES = ("kept", "lost", "skipped", "failed")


class ResultsError(Exception):
    """A file of cells cannot be read or written; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Known:
    """A cell that was tried before: by which version of the linter, and the verdict before the rewrite."""

    cell: Cell
    version: str
    before: str


class Results:
    """Cells by what was rewritten and how, whatever machine or folder it was in.

    The first of `paths` is appended to, a line a cell, each written at once: several processes may share it. All of
    `paths` are read; of two lines for one cell the later counts. With `again` those that were lost or failed are
    forgotten. `strange` counts lines that are no cells, such as the last one of a process that was killed.
    Raises ResultsError.
    """

    def __init__(self, paths: Sequence[str], version: str, *, again: bool = False) -> None:
        self._path = Path(paths[0])
        self.version = version
        self.strange = 0
        self._known: dict[str, Known] = {}
        for at, path in enumerate(paths):
            self._read(Path(path), must=at > 0)
        if again:
            self._known = {key: it for key, it in self._known.items() if it.cell.state not in ("lost", "failed")}
        try:
            self._file = self._path.open("a+b", buffering=0)
            if not self._ends_whole():
                self._file.write(b"\n")
        except OSError as error:
            raise ResultsError(f"{self._path}: cannot be written ({_reason(error)})") from None

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def known(self, case: Case, column: Column) -> Known | None:
        """What is known of a cell, under the names that the program has here."""
        found = self._known.get(key(case, column))
        if found is None:
            return None
        return replace(found, cell=replace(found.cell, case=case.name, group=case.group, column=column.name))

    def add(self, case: Case, column: Column, cell: Cell, before: str) -> None:
        """Writes a cell down. Raises ResultsError."""
        name = key(case, column)
        self._known[name] = Known(cell, self.version, before)
        line = json.dumps({"key": name, "version": self.version, "before": before, **asdict(cell)})
        try:
            self._file.write(f"{line}\n".encode())
        except OSError as error:
            raise ResultsError(f"{self._path}: cannot be written ({_reason(error)})") from None

    def _ends_whole(self) -> bool:
        """Whether the file to write ends with a whole line; one that was cut would swallow the next."""
        if not self._file.seek(0, os.SEEK_END):
            return True
        self._file.seek(-1, os.SEEK_END)
        return self._file.read(1) == b"\n"

    def _read(self, path: Path, *, must: bool) -> None:
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ResultsError(f"{path}: is larger than {MAX_BYTES >> 20} MiB")
            with path.open("rb") as file:
                for line in _lines(file.readline):
                    if line.strip():
                        self._take(line)
        except FileNotFoundError:
            if must:
                raise ResultsError(f"{path}: does not exist") from None
        except OSError as error:
            raise ResultsError(f"{path}: cannot be read ({_reason(error)})") from None

    def _take(self, line: bytes) -> None:
        try:
            data = json.loads(line)
            self._known[_text(data, "key")] = Known(_cell(data), _text(data, "version"), _text(data, "before"))
        except (ValueError, KeyError, TypeError, RecursionError):
            self.strange += 1


def key(case: Case, column: Column) -> str:
    """What a cell is about: program, problem, rewrites and their seed; not where the program lies."""
    names = [rewrite.name for rewrite in column.rewrites]
    text = json.dumps([case.program.bundle(), case.problem, names, column.seed])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def shard(cases: Sequence[Case], index: int, count: int) -> list[Case]:
    """The cases of shard `index` (from 1) of `count`: dealt by length, the same on every machine."""

    def order(case: Case) -> tuple[int, str, str]:
        text = case.program.bundle()
        return -len(text), hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), case.problem or ""

    return sorted(cases, key=order)[index - 1 :: count]


def _lines(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while line := read(MAX_LINE):
        yield line


def _cell(data: Mapping[str, object]) -> Cell:
    names = data["rewrites"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError("no list of names")
    texts = {item.name: _text(data, item.name) for item in fields(Cell) if item.name != "rewrites"}
    if texts["state"] not in STATES:
        raise ValueError("no such state")
    return Cell(**texts, rewrites=tuple(names))


def _text(data: Mapping[str, object], name: str) -> str:
    value = data[name]
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _reason(error: OSError) -> str:
    return (error.strerror or "error").lower()
