"""The other files of a submission: blocks of a bundle, or files that lie beside the solution."""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 2_000_000
MAX_TOTAL = 8_000_000
MAX_COUNT = 64
MAX_DEPTH = 3
MAX_LISTED = 100_000
TEXTS = frozenset(
    {".cu", ".cuh", ".h", ".hpp", ".hh", ".hxx", ".c", ".cc", ".cpp", ".cxx", ".inl", ".inc", ".ptx", ".metal", ".mm",
     ".txt", ".json", ".py"}
)  # fmt: skip
BINARIES = frozenset({".so", ".o", ".a", ".cubin", ".fatbin", ".dll", ".dylib", ".pyd", ".pt", ".bin"})
# Files of a run's archive that are about the run, not part of the solution.
OF_THE_RUN = frozenset({"run.json", "result.json", "solution.py", "check.log", "benchmark.log"})

# Files of any size and content are searched for it, so it never looks further than its line.
_MARKER = re.compile(r"^# ===== sidecar: (?P<name>\S.*?)(?: \((?P<size>\d+) bytes\b[^)\n]{0,80}\))? =====[ \t]*$", re.M)
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+\.*(\w+)|import[ \t]+([\w, \t]+))", re.M)
_SUFFIX = re.compile(rf"\.(?:{'|'.join(sorted(suffix[1:] for suffix in TEXTS | BINARIES))})(?!\w)")
_NAME_END = re.compile(r"[\w.+-]+$")


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A file that the solution may load, by the name it has for the solution.

    `path` is the file a reader can open and `first_line` the line of it where the text starts (a bundle holds several).
    A binary one has no text. `size` is in bytes.
    """

    name: str
    text: str
    path: str
    first_line: int = 1
    binary: bool = False
    size: int = 0


def split_bundle(text: str, path: str) -> tuple[str, dict[str, Sidecar], list[str]]:
    """(solution, sidecars, notes) of a text that may hold sidecar blocks; line numbers stay those of the file.

    A marker is a Python comment, so a text that is Python as a whole, with a block that claims to be anything else, is
    no bundle: what follows the marker would run.
    """
    markers = list(_MARKER.finditer(text))[: MAX_COUNT + 1] if "# ===== sidecar: " in text else []
    if not markers:
        return text, {}, []
    main = text[: markers[0].start()]
    if not main.strip():
        return text, {}, ["the file begins with a sidecar marker, with no solution before it; it was read as one file"]
    if any(not m["name"].endswith(".py") for m in markers) and _is_python(text):
        return text, {}, ["the file is Python to its end, so its sidecar markers were not followed"]
    sidecars: dict[str, Sidecar] = {}
    notes: list[str] = []
    if len(markers) > MAX_COUNT:
        notes.append(f"the bundle holds more than {MAX_COUNT} sidecars; the rest was not read")
    for marker, after in zip(markers[:MAX_COUNT], [*(m.start() for m in markers[1:]), len(text)], strict=False):
        start = min(marker.end() + 1, after)
        body = text[start:after]
        size = len(body.encode())
        stated = int(marker["size"]) if marker["size"] and len(marker["size"]) < 12 else None
        name = marker["name"].strip()
        if stated is not None and stated > size:
            notes.append(f"the sidecar {name} should have {stated} bytes, but the bundle holds only {size} of it")
        line = text.count("\n", 0, start) + 1
        sidecars[name] = Sidecar(name, body, path, line, binary="\0" in body, size=size)
    return main, sidecars, notes


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


class Neighbours:
    """The files that lie beside solutions; a folder is listed once, however many solutions it holds."""

    def __init__(self) -> None:
        self._listed: dict[tuple[Path, bool], dict[str, Path]] = {}

    def beside(self, path: Path, text: str, *, whole_folder: bool) -> dict[str, Sidecar]:
        """The files that a solution may load, by their paths relative to its folder.

        In a run's archive all sources count; beside a loose file only those that its text names. A Python file counts
        when the text imports or names it.
        """
        listed = self._list(path.parent, whole_folder)
        named = _file_names(text)
        for match in _IMPORT.finditer(text):
            named.update(f"{module}.py" for module in re.split(r"[\s,]+", match[1] or match[2]))
        found: dict[str, Sidecar] = {}
        total = 0
        for name in list(listed) if whole_folder else sorted(named & listed.keys()):
            wanted = whole_folder and not name.endswith(".py")
            if name in OF_THE_RUN or name == path.name or not (wanted or name.rsplit("/", 1)[-1] in named):
                continue
            sidecar = _read(listed[name], name)
            if sidecar is None:
                continue
            total += len(sidecar.text)
            if total > MAX_TOTAL or len(found) >= MAX_COUNT:
                break
            found[name] = sidecar
        return found

    def _list(self, folder: Path, deep: bool) -> dict[str, Path]:
        key = (folder, deep)
        if key not in self._listed:
            self._listed[key] = _sources(folder, deep)
        return self._listed[key]


def _file_names(text: str) -> set[str]:
    found = set()
    for match in _SUFFIX.finditer(text):
        stem = _NAME_END.search(text[max(0, match.start() - 100) : match.start()])
        if stem is not None:
            found.add(stem[0] + match[0])
    return found


def _sources(folder: Path, deep: bool) -> dict[str, Path]:
    """The source and binary files of a folder, and of those in it when `deep`, by their relative names."""
    found: dict[str, Path] = {}
    pending = [(folder, "", 0)]
    while pending and len(found) < MAX_LISTED:
        here, prefix, depth = pending.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries[:MAX_LISTED]:
            suffix = os.path.splitext(entry.name)[1].lower()
            if entry.is_symlink() or entry.name.startswith("."):
                continue
            if suffix in TEXTS or suffix in BINARIES:
                found[prefix + entry.name] = here / entry.name
            elif deep and depth < MAX_DEPTH and entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                pending.append((here / entry.name, f"{prefix}{entry.name}/", depth + 1))
    return found


def _read(file: Path, name: str) -> Sidecar | None:
    try:
        info = file.stat()
        size = info.st_size
        if not file.is_file():
            return None
        if file.suffix.lower() in BINARIES or size > MAX_BYTES:
            return Sidecar(name, "", str(file), binary=True, size=size)
        data = file.read_bytes()
    except OSError:
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Sidecar(name, "", str(file), binary=True, size=size)
    if "\0" in text:
        return Sidecar(name, "", str(file), binary=True, size=size)
    return Sidecar(name, text.replace("\r\n", "\n").replace("\r", "\n"), str(file), size=size)
