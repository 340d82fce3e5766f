"""The other files of a submission: blocks of a bundle, or files that lie beside the solution."""

from __future__ import annotations

import os
import posixpath
import re
import sys
from pathlib import Path

from kbh_lint.base.records import dataclass
from kbh_lint.source.imports import own_modules

MAX_BYTES = 2_000_000
MAX_TOTAL = 8_000_000
MAX_COUNT = 64
MAX_DEPTH = 6
MAX_LISTED = 100_000
TEXTS = frozenset(
    {".cu", ".cuh", ".h", ".hpp", ".hh", ".hxx", ".c", ".cc", ".cpp", ".cxx", ".inl", ".inc", ".ptx", ".metal", ".mm",
     ".txt", ".json", ".py"}
)  # fmt: skip
BINARIES = frozenset({".so", ".o", ".a", ".cubin", ".fatbin", ".dll", ".dylib", ".pyd", ".pt", ".bin"})
MODULES = (".so", ".pyd")  # of them, those that Python may import
# Files and folders of a run's archive that are about the run, not part of the solution.
OF_THE_RUN = frozenset({"run.json", "result.json", "solution.py", "check.log", "benchmark.log", "record"})

# Files of any size and content are searched for it, so it never looks further than its line.
_MARKER = re.compile(r"^# ===== sidecar: (?P<name>\S.*?)(?: \((?P<size>\d+) bytes\b[^)\n]{0,80}\))? =====[ \t]*$", re.M)
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+\.*(\w+)|import[ \t]+([\w, \t]+))", re.M)
_SUFFIX = re.compile(rf"\.(?:{'|'.join(sorted(suffix[1:] for suffix in TEXTS | BINARIES))})(?!\w)")
_NAME_END = re.compile(r"[\w.+-]+$")
_PATH_END = re.compile(r"(?<![\w./+-])(?:[\w.+-]+/)*[\w.+-]+$")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.M)


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


def with_reference(sidecars: dict[str, Sidecar], text: str, file: Path, name: str) -> dict[str, Sidecar]:
    """Sidecars and, where the solution imports it and has none of its own, the problem file under the `name` that its
    benchmark gives it, or `reference`."""
    module = name or "reference"
    if f"{module}.py" in sidecars or module not in _imported(text):
        return sidecars
    try:
        file = file.with_suffix(".py")
        if file.stat().st_size > MAX_BYTES:
            return sidecars
        content = file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return sidecars
    return {**sidecars, f"{module}.py": Sidecar(f"{module}.py", content, str(file), size=len(content.encode()))}


def split_bundle(text: str, path: str) -> tuple[str, dict[str, Sidecar], list[str]]:
    """(solution, sidecars, notes) of a text that may hold sidecar blocks; line numbers stay those of the file.

    A marker is a Python comment, so a text that is Python as a whole would run beyond it. Such a text is a bundle
    only if all its blocks are modules: something imports each, and none has to do with names of the solution.
    """
    markers = list(_MARKER.finditer(text))[: MAX_COUNT + 1] if "# ===== sidecar: " in text else []
    if not markers:
        return text, {}, []
    main = text[: markers[0].start()]
    if not main.strip():
        return text, {}, ["the file begins with a sidecar marker, with no solution before it; it was read as one file"]
    ends = [*(m.start() for m in markers[1:]), len(text)]
    blocks = [(m["name"].strip(), text[m.end() : end]) for m, end in zip(markers, ends, strict=True)]
    if _names(text) is not None and not _modules(main, blocks):
        return text, {}, ["the file is Python to its end, so its sidecar markers were not followed"]
    sidecars: dict[str, Sidecar] = {}
    notes: list[str] = []
    if len(markers) > MAX_COUNT:
        notes.append(f"the bundle holds more than {MAX_COUNT} sidecars; the rest was not read")
    for marker, after in zip(markers[:MAX_COUNT], ends, strict=False):
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


def _modules(main: str, blocks: list[tuple[str, str]]) -> bool:
    """Whether blocks after a solution are Python modules of their own, as far as their texts tell."""
    texts = [main, *(body for _, body in blocks)]
    named = {name for text in texts for name in _imported(text) | _file_names(text)} - sys.stdlib_module_names
    defined = _names(main, defined_only=True)
    for name, body in blocks:
        used = _names(body)
        parts = name.removesuffix(".py").split("/")
        if not name.endswith(".py") or defined is None or used is None or defined & used:
            return False
        if not named & {*parts, f"{parts[-1]}.py"} or parts[-1] in sys.stdlib_module_names:
            return False
    return True


def _names(text: str, *, defined_only: bool = False) -> set[str] | None:
    """The module-level names that a Python text has to do with, or only those that it defines and does not import;
    None when it is no Python."""
    import symtable

    try:
        pending = [symtable.symtable(text, "<bundle>", "exec")]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found: set[str] = set()
    while pending:
        table = pending.pop()
        top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if defined_only and (symbol.is_imported() or not symbol.is_assigned()):
                continue
            if top or symbol.is_global():
                found.add(symbol.get_name())
        pending += table.get_children()
    return found


def _imported(text: str) -> set[str]:
    """The first parts of the modules that a text imports."""
    return {module for match in _IMPORT.finditer(text) for module in re.split(r"[\s,]+", match[1] or match[2])}


class Neighbours:
    """The files that lie beside solutions; a folder is listed once, however many solutions it holds."""

    def __init__(self) -> None:
        self._listed: dict[tuple[Path, bool], dict[str, Path]] = {}

    def beside(self, path: Path, text: str, *, whole_folder: bool) -> dict[str, Sidecar]:
        """The files that a solution may load, by their paths relative to its folder.

        In a run's archive all sources count; beside a loose file only those that its text names. A Python file counts
        when the text names it, or when the text or another that counts imports it.
        """
        listed = self._list(path.parent, whole_folder)
        imported = _imported(text)
        named = _file_names(text) | {f"{module}.py" for module in imported}
        named |= {name for name in listed if name.endswith(MODULES) and name.partition(".")[0] in imported}
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
        self._follow(path, text, listed, found, deep=whole_folder)
        return found

    def _follow(self, path: Path, text: str, listed: dict[str, Path], found: dict[str, Sidecar], *, deep: bool) -> None:
        """Adds what a solution and its files name in turn: modules of packages, headers, sources by their paths."""
        pending = [("", text), *((name, car.text) for name, car in found.items())]
        total = sum(len(car.text) for car in found.values())
        while pending:
            of, content = pending.pop()
            for name in sorted(_wanted(content, of) - found.keys() - {path.name}):
                root, inner, rest = name.partition("/")
                file = listed.get(name)
                if file is None and inner and not deep and root not in sys.stdlib_module_names and root != "..":
                    file = self._list(path.parent / root, True).get(rest)
                sidecar = None if file is None or name in OF_THE_RUN else _read(file, name)
                if sidecar is None or total + len(sidecar.text) > MAX_TOTAL or len(found) >= MAX_COUNT:
                    continue
                total += len(sidecar.text)
                found[name] = sidecar
                pending.append((name, sidecar.text))

    def _list(self, folder: Path, deep: bool) -> dict[str, Path]:
        key = (folder, deep)
        if key not in self._listed:
            self._listed[key] = _sources(folder, deep)
        return self._listed[key]


def _wanted(text: str, of: str) -> set[str]:
    """The files, by their names from the solution's folder, that the text of the file `of` may load."""
    if not of or of.endswith(".py"):
        wanted, paths = own_modules(text, of), {name for name in _file_names(text, _PATH_END) if "/" in name}
    else:
        wanted, paths = set(), {match[1] or match[2] for match in _INCLUDE.finditer(text)}
    folder = of.rpartition("/")[0]
    if of.endswith(".py"):
        paths |= {name for name in _file_names(text) if not name.endswith(".py")}
    around = {"", folder}  # a build may name any folder as one of headers: often one around a source
    while folder and not of.endswith(".py"):
        folder = folder.rpartition("/")[0]
        around.add(folder)
    return wanted | {posixpath.normpath(posixpath.join(at, name)) for name in paths for at in around}


def _file_names(text: str, end: re.Pattern[str] = _NAME_END) -> set[str]:
    found = set()
    for match in _SUFFIX.finditer(text):
        stem = end.search(text[max(0, match.start() - 100) : match.start()])
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
            if entry.is_symlink() or entry.name.startswith(".") or (deep and prefix + entry.name in OF_THE_RUN):
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
