"""Extensions, files and processes: what a submission builds, writes and loads, followed without doing it."""

from __future__ import annotations

import posixpath
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import shown
from kbh_lint.host.effects import artifacts, outside, saved
from kbh_lint.host.values import bounds, taint, unknowns
from kbh_lint.host.values.library_objects import FilePath, OpenFile
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
SYSTEM = re.compile(rf"lib({_NAMES})(_static)?(-[0-9a-f]+)?(\.(so|a)(\..*)?)?")
LINKED = re.compile(rf"(lib)?({_NAMES}|torch(_cuda|_cpu|_python)?|c10(_cuda)?)(_static)?(\.(so|a)(\..*)?)?")
SYSTEM_FOLDERS = ("/usr/", "/lib/", "/lib64/", "/opt/", "<")


# --- files -------------------------------------------------------------------------------------------------


def find_file(interp: Run, path: str) -> str | None:
    """The text of a file of the submission, or one it wrote."""
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
    """Whether a path is there: headers and tools are, what only an earlier build can have left is not."""
    if find_file(interp, path) is not None or path in interp.files.built or saved.kept(interp, path) is not None:
        return True
    if path in interp.files.handed:
        return True
    interp.files.asked.add(path)
    if path.endswith(BUILT):
        return Unknown((), "whether a build left a file")
    return Unknown((), "likely: the path exists", likely=True, sort=Sort.PATH)


def write_file(interp: Run, path: str, text: Value) -> None:
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


def open_file(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = shown.show(args[0]) if args else ""
    mode = shown.show(args[1]) if len(args) > 1 else shown.show(kwargs.get("mode", "r"))
    if "w" in mode or "a" in mode:
        outside.file_written(interp, "open", name, loc)
    if taint.about_process(name) and "r" in mode:
        outside.process_file(interp, name, loc)
        taint.asked(interp, name[:40], taint.PROCESS, loc)
    elif interp.trying and "r" in mode and _read(interp, name) is None:
        interp.may_fail("FileNotFoundError", loc)
    return OpenFile(args[0] if args and isinstance(args[0], str) else name, mode)


def file_method(interp: Run, owner: LibObject, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    path = owner.attrs["name"]
    if name == "write" and args and not isinstance(args[0], str):
        write_file(interp, path, args[0])
    if name == "write" and args and isinstance(args[0], str):
        before = find_file(interp, path) if owner.attrs.get("written") else ""
        owner.attrs["written"] = True
        write_file(interp, path, concat((before or "", args[0])))
        return len(args[0])
    if name == "fileno":
        return outside.own_descriptor()
    if name in ("read", "readlines", "readline") and taint.about_process(path):
        return taint.of_symbol(path[:40])
    if name in ("read", "readlines"):
        found = _read(interp, path)
        if found is None:
            interp.miss(f"file {path.rpartition('/')[2]} is not part of the submission", loc)
            return Unknown((), "a file outside the submission")
        return found
    return None


def path_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if taint.source(*args) is not None:  # a path of which nobody knows more than who asked for it
        return unknowns.merged(interp, *args, why=path)
    out = ""
    for part in map(shown.show, args):
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


def glob_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """glob.glob and glob.iglob: what was built, and libraries of the system. Whether others are there is not known."""
    folder, _, pattern = (shown.show(args[0]) if args else "").rpartition("/")
    places = _found(interp, folder, pattern) if path in ("glob.glob", "glob.iglob") else []
    if not places and path in ("glob.glob", "glob.iglob") and (own := _own(interp, folder, pattern)):
        return own
    known = places and (artifacts.find(interp.files.built, places[0]) is not None or of_the_system(places[0]))
    return places if known else unknowns.merged(interp, *args, why=path)


def folder_of(path: str) -> str:
    """The folder of a path, which for a path that is not known is not known either."""
    return posixpath.dirname(path) or (path if path.startswith("<") else "")


def path_method(
    interp: Run, owner: LibObject, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    text = str(owner.attrs["path"])
    if name in ("read_text", "read_bytes", "iterdir", "glob", "rglob") and taint.about_process(text):
        outside.process_file(interp, text, loc)
        return taint.asked(interp, text[:40], taint.PROCESS, loc)
    if name in ("glob", "rglob") and args and (places := _found(interp, text, shown.show(args[0]))):
        return [FilePath(place) for place in places]
    if name in ("glob", "rglob") and args and isinstance(args[0], str):
        pattern = shown.show(args[0])
        if own := _own(interp, text, pattern if name == "glob" else f"**/{pattern}"):
            return [FilePath(place) for place in own]
    if name in ("read_text", "read_bytes"):
        found = _read(interp, owner.attrs["path"])
        if found is None:
            saved.absent(interp, owner.attrs["path"], loc)
            interp.miss(f"file {text.rpartition('/')[2]} is not part of the submission", loc)
            return Unknown((), "a file outside the submission")
        return found
    if name in ("write_text", "write_bytes") and args:
        write_file(interp, owner.attrs["path"], args[0])
        return len(args[0]) if isinstance(args[0], str) else 0
    if name in ("resolve", "absolute", "expanduser"):
        return owner
    if name in ("joinpath", "with_name", "with_suffix"):
        base = text if name == "joinpath" else text.rpartition("/")[0]
        if name == "with_suffix":
            return FilePath(text.rpartition(".")[0] + shown.show(args[0]))
        return FilePath("/".join([base, *map(shown.show, args)]))
    if name in ("exists", "is_file", "is_dir"):
        return exists(interp, owner.attrs["path"])
    if name == "as_posix":
        return text
    if name in ("rename", "replace", "symlink_to", "hardlink_to", "copy", "move") and args:
        target = shown.show(args[0])
        to, of = (text, target) if name in ("symlink_to", "hardlink_to") else (target, text)
        artifacts.copied(interp, of, to)
        saved.copied(interp, of, to)
        return path_call(interp, path="pathlib.Path", args=[to], kwargs={}, loc=loc)
    if name in ("mkdir", "unlink", "touch", "chmod"):
        return None
    if name == "open":
        return open_file(interp, "", [text, *args], kwargs, loc)
    return Unknown((), f"Path.{name}")


def temporary(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """tempfile: a made-up folder or file."""
    name = path.rsplit(".", 1)[-1]
    if name in ("mkdtemp", "gettempdir"):
        return "/tmp/made"
    if name == "NamedTemporaryFile":
        return OpenFile(f"/tmp/made/file{shown.show(kwargs.get('suffix', ''))}", "w")
    if name == "TemporaryDirectory":
        return "/tmp/made"
    return Unknown((), path)


def process(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """subprocess: a compiler that is run builds the source files it is given."""
    interp.note("process", {"symbol": path}, loc)
    command = args[0] if args else kwargs.get("args")
    words = [shown.show(a) for a in command] if isinstance(command, (list, tuple)) else []
    if isinstance(command, str):
        words = [str(w).strip("\"'") for w in str(command).split()]
    if isinstance(kwargs.get("input"), str):  # the text comes through standard input
        write_file(interp, "/dev/stdin.cu", kwargs["input"])
        words.append("/dev/stdin.cu")
    folder = shown.show(kwargs["cwd"]) if kwargs.get("cwd") is not None else ""
    artifacts.command(interp, words, folder, lambda word: find_file(interp, word) is not None)
    if path == "subprocess.Popen":
        return LibObject.by_path(
            path, {"returncode": 0, "stdout": "", "stderr": "", "loc": loc, "pid": LibObject("subprocess.pid")}
        )
    return LibObject("subprocess.CompletedProcess", {"returncode": 0, "stdout": "", "stderr": ""})


def of_the_system(path: str) -> bool:
    """Whether a library is one of CUDA's or of the system's, by its name and by the folder, if one is given."""
    folder, slash, base = path.rpartition("/")
    folder = f"{posixpath.normpath(folder)}/" if slash else ""  # without one the loader looks in the system's
    if base in ("", "None"):
        return True
    known = not folder or folder.startswith(SYSTEM_FOLDERS) or "-packages/" in folder
    return known and SYSTEM.fullmatch(base) is not None


# --- kernels compiled from text at run time ----------------------------------------------------------------
