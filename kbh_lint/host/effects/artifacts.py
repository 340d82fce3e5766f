"""Binaries that a submission builds itself: what each was made of, and where copies of it went.

A path is followed as text. `<...>` stands for parts that are not known (a hash, say); they match anything.
What was written to a path last counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Value
from kbh_lint.host.values.named_objects import BuiltBytes
from kbh_lint.host.values.objects import LibObject

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

SUFFIXES = (".so", ".o", ".a", ".cubin", ".ptx", ".fatbin", ".hsaco", ".pyd", ".dll")
SOURCES = (".cu", ".cpp", ".cc", ".c", ".cxx")
COPIES = frozenset(
    "os.rename os.replace os.link os.symlink shutil.copy shutil.copy2 shutil.copyfile shutil.copytree "
    "shutil.move".split()
)
COMMANDS = frozenset(("mv", "cp", "ln", "install"))
MAX_BUILT = 256
_UNKNOWN = re.compile(r"<[^<>]*>")


@dataclass(frozen=True, slots=True)
class Built:
    """The parts of one binary that was built: source texts by path, compiler flags, and the parts that have no
    source."""

    sources: tuple[str, ...]
    flags: tuple[str, ...]
    foreign: tuple[str, ...] = ()


def find(built: dict[str, Built], path: str) -> Built | None:
    """Returns the binary that was built at a path; where the path is only partly known, all that match, merged into
    one; None without a match."""
    path = _plain(path)
    if path in built:
        return built[path]
    found = [made for place, made in built.items() if _same(place, path)]
    return _together(found) if found else None


def _together(parts: list[Built]) -> Built:
    def each(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item for one in lists for item in one))

    return Built(each(p.sources for p in parts), each(p.flags for p in parts), each(p.foreign for p in parts))


def put(built: dict[str, Built], path: str, made: Built | None) -> None:
    """Records that the binary `made` is now at a path; None for a binary that was not built here."""
    path = _plain(path)
    for place in [p for p in built if p == path]:
        del built[place]
    if made is not None and len(built) < MAX_BUILT:
        built[path] = made


def command(interp: Run, words: list[str], folder: str, there: Callable[[str], bool]) -> None:
    """Models running a command line: compilers and linkers build, `mv` and `cp` copy. `there` tells which source files
    exist."""
    for part in _commands(words):
        given = [_in(folder, w) for w in part[1:] if not w.startswith("-")]
        if part[0].rpartition("/")[2] not in COMMANDS:
            _build(interp.files.built, part, given, folder, there)
        elif len(given) > 1:
            copied(interp, given[0], given[-1])


def _build(
    built: dict[str, Built], part: list[str], given: list[str], folder: str, there: Callable[[str], bool]
) -> None:
    """What a compiler or a linker makes of the files that it is given."""
    sources = [w for w in given if w.endswith(SOURCES) and there(w)]
    parts = [found for w in given if w.endswith(SUFFIXES) and (found := find(built, w)) is not None]
    if not sources and not parts:
        return
    output, at = _output(part)
    own = _in(folder, output or "")
    foreign = [w for w in given if w.endswith((".o", ".a")) and w != own and find(built, w) is None]
    flags = tuple(w for w in part[1:] if w.startswith("-"))
    made = _together([*parts, Built(tuple(sources), flags, tuple(foreign))])
    for target in [output] if output else _by_default(sources):
        put(built, _in(at if at and not output else folder, target), made)


def copied(interp: Run, source: str, target: str) -> None:
    """Models copying, moving or linking a file or a folder: binaries built at `source` are then also at `target`."""
    built: dict[str, Built] = interp.files.built
    source, target = _plain(source), _plain(target)
    base = source.rpartition("/")[2]
    made = find(built, source)
    if made is not None:
        put(built, target, made)
        put(built, f"{target}/{base}", made)  # the target may be a folder
    elif source.endswith(SUFFIXES):  # a binary from elsewhere replaces ours
        put(built, target, None)
        put(built, f"{target}/{base}", None)
    for place, inner in list(built.items()):
        if place.startswith(f"{source}/"):
            put(built, target + place[len(source) :], inner)
    files: dict[str, str] = interp.files.texts
    if source in files:
        files[target] = files[source]
        files[target.rpartition("/")[2]] = files[source]


def listed(built: dict[str, Built], folder: str, pattern: str) -> list[str]:
    """Returns the paths of the built binaries below `folder` that match a glob pattern."""
    parts = ["", *pattern.rpartition("/")[2].split("*")]
    return [p for p in built if p.startswith(f"{_plain(folder)}/") and _fits(parts, p)]


def _same(place: str, path: str) -> bool:
    place, path = _plain(place), _plain(path)
    if place == path:
        return True
    if "<" in place and _fits(_known(place), path) or "<" in path and _fits(_known(path), place):
        return True
    short, long = sorted((place, path), key=len)
    return not short.startswith("/") and long.endswith(f"/{short}")


def _known(path: str) -> list[str]:
    """The parts of a path between those that are not known."""
    return _UNKNOWN.split(path[:500])


def _fits(parts: list[str], path: str) -> bool:
    """Whether a path is `parts` with any text between them. Each is taken where it comes first: one pass suffices."""
    if len(parts) == 1:
        return path == parts[0]
    first, *middle, last = parts
    if not path.startswith(first) or not path.endswith(last):
        return False
    at, end = len(first), len(path) - len(last)
    for part in middle:
        found = path.find(part, at, max(end, 0))
        if found < 0:
            return False
        at = found + len(part)
    return at <= end


def _plain(path: str) -> str:
    while path.startswith("./"):
        path = path[2:]
    return str(path).replace("//", "/").replace("/./", "/").rstrip("/")


def _in(folder: str, path: str) -> str:
    return path if not folder or path.startswith(("/", "<")) else f"{folder}/{path}"


def _commands(words: Iterable[str]) -> list[list[str]]:
    """The commands of a line of shell."""
    out: list[list[str]] = [[]]
    for word in words:
        ends = word.endswith(";")
        if word in ("&&", "||", ";", "|"):
            out.append([])
            continue
        out[-1].append(word.rstrip(";"))
        if ends:
            out.append([])
    return [part for part in out if part]


def _output(words: list[str]) -> tuple[str | None, str]:
    """The file that a compiler is told to write, and the folder for those that it names itself."""
    folder = ""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word in ("-o", "--output-file") and following:
            return following, folder
        if word in ("-odir", "--output-directory"):
            folder = following
        for flag in ("--output-file=", "-o=", "-o"):
            if word.startswith(flag) and word.endswith(SUFFIXES):
                return word[len(flag) :], folder
    return None, folder


def _by_default(sources: list[str]) -> list[str]:
    """The names that a compiler gives its outputs when it is told none."""
    stems = [s.rpartition("/")[2].rpartition(".")[0] for s in sources]
    return ["a.out", *(f"{stem}{suffix}" for stem in stems for suffix in (".o", ".ptx", ".cubin", ".fatbin"))]


def read(interp: Run, path: str) -> LibObject | None:
    """Returns the bytes of a binary that was built here; None for other paths."""
    made = find(interp.files.built, path)
    return BuiltBytes("built.bytes", {"built": made}) if made is not None else None


def written(interp: Run, path: str, value: Value) -> None:
    """Models writing a value that is no text to a path: the bytes of a binary that was built here, or others."""
    put(interp.files.built, path, value.attrs["built"] if isinstance(value, BuiltBytes) else None)


def loaded(interp: Run, path: str, loc: ir.Loc | None) -> Built | None:
    """Returns the binary that is loaded from a path, if it was built here, and notes its parts that have no source."""
    made = find(interp.files.built, path)
    for part in made.foreign if made is not None else ():
        without_source(interp, part, loc)
    return made


def without_source(interp: Run, path: str, loc: ir.Loc | None) -> str:
    """Notes machine code without source, whose effects are not known, and returns its file name."""
    name = path.rpartition("/")[2][:80]
    interp.note("binary", {"path": name}, loc)
    interp.ran_unread(f"{name} is machine code without source", loc)
    return name
