"""What an agent is given, whether it left that alone, and what of its workspace is its solution."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.record.archive import RECORD, RUN_FILE
from harness.room.base import Files, RoomError
from kbh_lint.source import sidecars

__all__ = ["SOLUTION", "Solution", "Template", "read_solution", "sources"]

SOLUTION = "solution.py"
WORKSPACE = "workspace"
MOST_FILES = 20_000  # of a workspace
SOURCE_BYTES = 2_000_000
CUDA = frozenset({".cu", ".cuh", ".h", ".hpp", ".hh", ".hxx", ".inl", ".inc", ".c", ".cc", ".cpp", ".cxx", ".ptx"})


@dataclass(frozen=True, slots=True)
class Template:
    """The files that a run begins with, and must end with: bytes by name."""

    files: Mapping[str, bytes]

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of each given file, by name."""
        return {name: hashlib.sha256(data).hexdigest() for name, data in sorted(self.files.items())}

    def changed(self, files: Files) -> dict[str, str]:
        """The given files that are no longer as they were, by name, each with a few words on how."""
        found: dict[str, str] = {}
        for name, data in self.files.items():
            try:
                now = files.read(f"{WORKSPACE}/{name}", len(data) + 1)
            except RoomError as error:
                found[name] = str(error)
                continue
            if now != data:
                found[name] = "has another content"
        return found

    def restore(self, files: Files, names: Sequence[str]) -> None:
        """Writes the named files again. Raises RoomError."""
        for name in names:
            files.write(f"{WORKSPACE}/{name}", self.files[name])


@dataclass(frozen=True, slots=True)
class Solution:
    """solution.py with the files beside it that it may load; `notes` say what was left out, and why."""

    files: Mapping[str, bytes]
    notes: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        """The hash of solution.py alone; "" where there is none."""
        data = self.files.get(SOLUTION)
        return "" if data is None else hashlib.sha256(data).hexdigest()


def sources(files: Files, template: Template) -> list[tuple[str, int, int]]:
    """(name, bytes, mtime) of the files of the workspace that a solution could be made of, not those given."""
    kinds = sidecars.TEXTS | sidecars.BINARIES
    found = []
    for path, size, mtime in files.walk(WORKSPACE, most=MOST_FILES):
        name = path.removeprefix(f"{WORKSPACE}/")
        parts = name.split("/")
        hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
        if name in template.files or hidden or len(parts) > sidecars.MAX_DEPTH + 1 or parts[0] in (RECORD, RUN_FILE):
            continue
        if name == SOLUTION or "." + name.rpartition(".")[2].lower() in kinds:
            found.append((name, size, mtime))
    return found


def read_solution(files: Files, template: Template) -> Solution:
    """The solution as it lies in the workspace now: solution.py, CUDA and C++ beside it, and what these name.

    Nothing is followed that leads elsewhere: a link, a pipe or a device in its place is no solution, and is noted.
    """
    notes: list[str] = []
    links = {path: leads for path, leads in files.links(WORKSPACE) if path == f"{WORKSPACE}/{SOLUTION}"}
    if links:
        return Solution({}, (f"{SOLUTION} is a link to {next(iter(links.values()))[:200]}, which is not followed",))
    there = {name: size for name, size, _ in sources(files, template)}
    main = _read(files, SOLUTION, notes) if SOLUTION in there else None
    if main is None:
        return Solution({}, tuple(notes))
    found = {SOLUTION: main}
    pending, total = [main], 0
    while pending:
        text = pending.pop()
        for name in sorted(there.keys() - found.keys()):
            suffix = "." + name.rpartition(".")[2].lower()
            if suffix not in CUDA and not _named(name, text):
                continue
            data = _read(files, name, notes)
            total += len(data or b"")
            if data is None:
                continue
            if len(found) > sidecars.MAX_COUNT or total > sidecars.MAX_TOTAL:
                notes.append(
                    f"{name} and what follows it were left out: the solution has too many files, or too large ones"
                )
                return Solution(found, tuple(notes))
            found[name] = data
            pending.append(data)
    return Solution(found, tuple(notes))


def _named(name: str, text: bytes) -> bool:
    """Whether a text speaks of a file: by its name, or as a module."""
    base = name.rpartition("/")[2].encode("utf-8", "replace")
    return base in text or (base.endswith(b".py") and base[:-3] in text)


def _read(files: Files, name: str, notes: list[str]) -> bytes | None:
    try:
        return files.read(f"{WORKSPACE}/{name}", SOURCE_BYTES)
    except RoomError as error:
        notes.append(str(error))
        return None
