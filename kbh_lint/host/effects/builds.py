"""Extensions, files and processes: what a submission builds, writes and loads, followed without doing it."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.regexes import regex
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import shown
from kbh_lint.host.effects import artifacts, outside, saved
from kbh_lint.host.values import bounds, taint, unknowns
from kbh_lint.host.values.library_objects import FilePath, OpenFile
from kbh_lint.host.values.modelled import Methods, Owner, Rows, Site, models
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Sort, Unknown
from kbh_lint.source.embedded import FileText, Piece, Text, concat

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

BUILT = artifacts.SUFFIXES
_NAMES = (
    r"cuda|cudart|cudadevrt|nvrtc(-builtins)?|nvJitLink|nvToolsExt|nvidia-ml|cupti|nccl|"
    r"cu(blas(Lt)?|dnn\w*|fft|rand|solver|sparse(Lt)?|tensor)|c|m|dl|rt|pthread|gomp|gcc_s|stdc\+\+"
)
SYSTEM = regex(rf"lib({_NAMES})(_static)?(-[0-9a-f]+)?(\.(so|a)(\..*)?)?")
LINKED = regex(rf"(lib)?({_NAMES}|torch(_cuda|_cpu|_python)?|c10(_cuda)?)(_static)?(\.(so|a)(\..*)?)?")
SYSTEM_FOLDERS = ("/usr/", "/lib/", "/lib64/", "/opt/", "<")


# --- files -------------------------------------------------------------------------------------------------


def find_file(interp: Run, path: str) -> str | None:
    """Returns the text of a file that belongs to the submission or was written by it; None for others."""
    files = interp.files.texts
    if path in files:
        return files[path]
    base = path.rpartition("/")[2]
    parts = path.split("/")  # a file of a folder has the path from the solution on as its name
    base = next((tail for i in range(len(parts)) if (tail := "/".join(parts[i:])) in files), base)
    if base in files:
        text = files[base]
        return text if isinstance(text, Text) else Text(text, (Piece(0, len(text), FileText(base, text), 0),))
    return None


def exists(interp: Run, path: str) -> Any:
    """Whether a path exists: files known here do, headers and tools probably do; unknown for what only an earlier build
    can have left."""
    if find_file(interp, path) is not None or path in interp.files.built or saved.kept(interp, path) is not None:
        return True
    if path in interp.files.handed:
        return True
    interp.files.asked.add(path)
    if path.endswith(BUILT):
        return Unknown((), "whether a build left a file")
    return Unknown((), "likely: the path exists", likely=True, sort=Sort.PATH)


def write_file(interp: Run, path: str, text: Value) -> None:
    """Models replacing the contents of a file by a value."""
    saved.forget(interp, path)
    if isinstance(text, str):
        bounds.text(interp, text)
        interp.files.texts[path] = text
        interp.files.texts[path.rpartition("/")[2]] = text
    else:
        artifacts.written(interp, path, text)
        saved.keep(interp, path, text, None)


def _read(interp: Run, path: str) -> Any | None:
    """What a file holds; None of one that is neither the submission's nor written in this run."""
    found: Any = find_file(interp, path)
    if found is None:
        found = artifacts.read(interp, path)
    return saved.kept(interp, path) if found is None else found


def opened(run: Run, file: Value, mode: Value, loc: ir.Loc | None) -> OpenFile:
    """Models `open(file, mode)`."""
    name, how = shown.show(file), shown.show(mode)
    if "w" in how or "a" in how:
        outside.file_written(run, "open", name, loc)
    if taint.about_process(name) and "r" in how:
        outside.process_file(run, name, loc)
        taint.asked(run, name[:40], taint.PROCESS, loc)
    elif run.trying and "r" in how and _read(run, name) is None:
        run.may_fail("FileNotFoundError", loc)
    return OpenFile(file if isinstance(file, str) else name, how)


class _Files(Methods[Owner]):
    """Methods of open files."""

    @models("write")
    def write(self, site: Site, owner: LibObject, data: Value) -> Value:
        """Models `file.write(data)`: appends a known text to what was written; any other value replaces it."""
        path = owner.attrs["name"]
        if not isinstance(data, str):
            write_file(site.run, path, data)
            return None
        before = find_file(site.run, path) if owner.attrs.get("written") else ""
        owner.attrs["written"] = True
        write_file(site.run, path, concat((before or "", data)))
        return len(data)

    @models("fileno")
    def fileno(self, site: Site, owner: LibObject) -> Value:
        """Models `file.fileno()`: a descriptor of the submission's own."""
        return outside.own_descriptor()

    @models("read", "readlines", "readline")
    def read(self, site: Site, owner: LibObject, *size: Value) -> Value:
        """Models `file.read()` and the like: the contents where they are known; lines are not known. A file about
        processes gives a tainted value."""
        path = owner.attrs["name"]
        if taint.about_process(path):
            return taint.of_symbol(path[:40])
        return None if site.name == "readline" else _held(site.run, path, site.loc)

    def other(self, site: Site, owner: Owner) -> Value:
        """Answers a call of a method without a model (`Methods.other`): None."""
        return None


def _held(run: Run, path: str, loc: ir.Loc | None) -> Value:
    """What a file holds, as it is read: of one from elsewhere that is not known."""
    found = _read(run, path)
    if found is not None:
        return found
    run.miss(f"file {str(path).rpartition('/')[2]} is not part of the submission", loc)
    return Unknown((), "a file outside the submission")


def path_of(run: Run, made: str, parts: Sequence[Value]) -> Value:
    """Models `pathlib.Path(*parts)` and the other path classes."""
    if taint.source(*parts) is not None:  # a path of which nobody knows more than who asked for it
        return unknowns.merged(run, *parts, why=made)
    out = ""
    for part in map(shown.show, parts):
        out = part if part.startswith("/") or not out else f"{out}/{part}"
    return FilePath(out or ".")


def _found(interp: Run, folder: str, pattern: str) -> list[str]:
    """The binaries that a pattern finds: those that were built, or one as an earlier build or the system has it."""
    stem = pattern.rstrip("*.")
    if not stem.endswith(BUILT):
        return []
    one = f"{folder}/{stem}" if folder else stem
    found = artifacts.listed(interp.files.built, folder, pattern) or [one.replace("*", "found")]
    interp.files.asked.update(found)  # what a folder lists is there
    return found


def _own(interp: Run, folder: str, pattern: str) -> list[str]:
    """The source files of the submission in a folder of its own that a pattern names; none where it is another's."""
    inside = posixpath.relpath(folder, outside.HOME) if folder.startswith("/") else posixpath.normpath(folder or ".")
    if inside.startswith(".."):
        return []
    wanted = pattern if inside == "." else f"{inside}/{pattern}"
    ways = {wanted, wanted.replace("**/", "")}
    names = {name.removeprefix("./") for name in interp.files.texts if not name.startswith(("/", "<"))}
    return [
        f"{outside.HOME}/{name}"
        for name in sorted(names)
        if any(fnmatchcase(name, way) and ("**" in way or name.count("/") == way.count("/")) for way in ways)
    ]


def listed(run: Run, pathname: str) -> list[str] | None:
    """Returns the built files, the files of the submission or the system libraries that match a pattern; None where
    that is not known."""
    folder, _, pattern = pathname.rpartition("/")
    places = _found(run, folder, pattern)
    if not places:
        return _own(run, folder, pattern) or None
    known = artifacts.find(run.files.built, places[0]) is not None or of_the_system(places[0])
    return places if known else None


def folder_of(path: str) -> str:
    """Returns the folder of a path; a path that is not known stands for its folder, too."""
    return posixpath.dirname(path) or (path if path.startswith("<") else "")


class _Paths(Methods[Owner]):
    """`pathlib.Path`."""

    def attribute(self, run: Run, owner: Owner, name: str, loc: ir.Loc | None) -> Value:
        """Returns `path.parent`, `path.name`, `path.stem` or `path.suffix`; NotImplemented for other attributes."""
        folder, _, last = str(owner.attrs["path"]).rpartition("/")
        stem, dot, suffix = last.rpartition(".")
        if name == "parent":
            return FilePath(folder_of(str(owner.attrs["path"])) or ".")
        return {"name": last, "suffix": dot + suffix if dot else "", "stem": stem}.get(name, NotImplemented)

    @models("read_text", "read_bytes")
    def read(self, site: Site, owner: FilePath, *options: Value, **named: Value) -> Value:
        """Models `path.read_text()` and `path.read_bytes()`."""
        if taint.about_process(str(owner.text)):
            return _of_process(site, owner)
        if _read(site.run, owner.text) is None:
            saved.absent(site.run, owner.text, site.loc)
        return _held(site.run, owner.text, site.loc)

    @models("iterdir")
    def iterdir(self, site: Site, owner: FilePath) -> Value:
        """Models `path.iterdir()`: the entries of a folder are not known."""
        return _of_process(site, owner) if taint.about_process(str(owner.text)) else self.other(site, owner)

    @models("glob", "rglob")
    def glob(self, site: Site, owner: FilePath, pattern: Value, **options: Value) -> Value:
        """Models `path.glob(pattern)`: the built binaries and the submission's files that match."""
        text = str(owner.text)
        if taint.about_process(text):
            return _of_process(site, owner)
        wanted = shown.show(pattern)
        places = _found(site.run, text, wanted)
        if not places and isinstance(pattern, str):
            places = _own(site.run, text, wanted if site.name == "glob" else f"**/{wanted}")
        return [FilePath(place) for place in places] if places else self.other(site, owner)

    @models("write_text", "write_bytes")
    def write(self, site: Site, owner: FilePath, data: Value, *options: Value, **named: Value) -> int:
        """Models `path.write_text(data)` and `path.write_bytes(data)`."""
        write_file(site.run, owner.text, data)
        return len(data) if isinstance(data, str) else 0

    @models("resolve", "absolute", "expanduser")
    def resolve(self, site: Site, owner: FilePath, *strict: Value, **named: Value) -> Value:
        """Models `path.resolve()` and the like: returns the same path."""
        return owner

    @models("joinpath")
    def joinpath(self, site: Site, owner: FilePath, *parts: Value) -> Value:
        """Models `path.joinpath(*parts)`."""
        return FilePath("/".join([str(owner.text), *map(shown.show, parts)]))

    @models("with_name")
    def with_name(self, site: Site, owner: FilePath, name: Value) -> Value:
        """Models `path.with_name(name)`."""
        return FilePath("/".join([str(owner.text).rpartition("/")[0], shown.show(name)]))

    @models("with_suffix")
    def with_suffix(self, site: Site, owner: FilePath, suffix: Value) -> Value:
        """Models `path.with_suffix(suffix)`."""
        return FilePath(str(owner.text).rpartition(".")[0] + shown.show(suffix))

    @models("exists", "is_file", "is_dir")
    def exists(self, site: Site, owner: FilePath, **options: Value) -> Value:
        """Models `path.exists()` and the like."""
        return exists(site.run, owner.text)

    @models("as_posix")
    def as_posix(self, site: Site, owner: FilePath) -> str:
        """Models `path.as_posix()`: the path as a text."""
        return str(owner.text)

    @models("rename", "replace", "symlink_to", "hardlink_to", "copy", "move")
    def copied(self, site: Site, owner: FilePath, target: Value, *options: Value, **named: Value) -> Value:
        """Models `path.rename(target)`, `path.symlink_to(target)` and the like: the contents are then found at the
        other path. Returns the path `target`."""
        run, text, other = site.run, str(owner.text), shown.show(target)
        to, of = (text, other) if site.name in ("symlink_to", "hardlink_to") else (other, text)
        artifacts.copied(run, of, to)
        saved.copied(run, of, to)
        return path_of(run, "pathlib.Path", [to])

    @models("mkdir", "unlink", "touch", "chmod")
    def changed(self, site: Site, owner: FilePath, *options: Value, **named: Value) -> None:
        """Models `path.mkdir()`, `path.unlink()` and the like, which are taken to change nothing that the program
        reads."""

    @models("open")
    def open(self, site: Site, owner: FilePath, mode: Value = "r", *options: Value, **named: Value) -> Value:
        """Models `path.open(mode)`."""
        return opened(site.run, str(owner.text), mode, site.loc)

    def other(self, site: Site, owner: Owner) -> Value:
        """Answers a call of a method without a model (`Methods.other`): an unknown value."""
        return Unknown((), f"Path.{site.name}")


def _of_process(site: Site, owner: FilePath) -> Value:
    """What files below /proc tell, which is who runs the submission."""
    text = str(owner.text)
    outside.process_file(site.run, text, site.loc)
    return taint.asked(site.run, text[:40], taint.PROCESS, site.loc)


METHODS: Rows = {FilePath: _Paths(), OpenFile: _Files()}


def process(site: Site, command: Value, given: Value, cwd: Value) -> None:
    """Models running `command` in the folder `cwd`, with the text `given` as its standard input: its builds and copies
    are followed."""
    words = [shown.show(a) for a in command] if isinstance(command, (list, tuple)) else []
    if isinstance(command, str):
        words = [str(w).strip("\"'") for w in str(command).split()]
    if isinstance(given, str):  # the text comes through standard input
        write_file(site.run, "/dev/stdin.cu", given)
        words.append("/dev/stdin.cu")
    folder = shown.show(cwd) if cwd is not None else ""
    artifacts.command(site.run, words, folder, lambda word: find_file(site.run, word) is not None)


def of_the_system(path: str) -> bool:
    """Whether a path is a library of CUDA or of the system, by its name and, if it has one, its folder."""
    folder, slash, base = path.rpartition("/")
    head, _, rest = folder.partition("/")
    if head.startswith("<"):  # where a package lies: `<torch>/../nvidia/...` is beside it, further up is anywhere
        folder = f"/site-packages/package/{rest}"
    folder = f"{posixpath.normpath(folder)}/" if slash else ""  # without one the loader looks in the system's
    if base in ("", "None"):
        return True
    known = not folder or folder.startswith(SYSTEM_FOLDERS) or "-packages/" in folder
    return known and SYSTEM.fullmatch(base) is not None
