"""Extensions, files and processes: what a submission builds, writes and loads, followed without doing it."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any

from kbh_lint import dtypes, ir
from kbh_lint.host import (
    artifacts,
    asking,
    bounds,
    containers,
    cpp_texts,
    driver,
    exceptions,
    outside,
    tensor_arguments,
    unknowns,
)
from kbh_lint.host.objects import Blob, Extension, ExtFunction, LibObject
from kbh_lint.host.tensors import Unknown
from kbh_lint.source.embedded import FileText, Piece, Text, concat
from kbh_lint.values import DType, Env, Overloads

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_SOURCES = 64
BUILT = artifacts.SUFFIXES
_NAMES = (
    r"cuda|cudart|cudadevrt|nvrtc(-builtins)?|nvJitLink|nvToolsExt|nvidia-ml|cupti|nccl|"
    r"cu(blas(Lt)?|dnn\w*|fft|rand|solver|sparse(Lt)?|tensor)|c|m|dl|rt|pthread|gomp|gcc_s|stdc\+\+"
)
SYSTEM = re.compile(rf"lib({_NAMES})(_static)?(-[0-9a-f]+)?(\.(so|a)(\..*)?)?")
LINKED = re.compile(rf"(lib)?({_NAMES}|torch(_cuda|_cpu|_python)?|c10(_cuda)?)(_static)?(\.(so|a)(\..*)?)?")
SYSTEM_FOLDERS = ("/usr/", "/lib/", "/lib64/", "/opt/", "<")
EXTENSIONS = "/cache/torch_extensions"  # where torch builds extensions that are given no folder


def texts(interp: Run, value: Any) -> list[str]:
    """Source texts from a string, a list of them, or unknowns (which are reported)."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value[:MAX_SOURCES] for t in texts(interp, v)]
    return []


def extension_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """torch.utils.cpp_extension.load_inline and load."""
    name = path.rsplit(".", 1)[-1]
    if name not in ("load_inline", "load", "_jit_compile"):
        return LibObject(path, {"include": "/include"})
    interp.note("build", {"symbol": path}, loc)
    flags = [
        containers.show(f) for key in ("extra_cuda_cflags", "extra_cflags") for f in texts(interp, kwargs.get(key))
    ]
    title = containers.show(args[0]) if args else containers.show(kwargs.get("name", "extension"))
    if name == "load_inline":
        sources: list[str] = []
        for i, key in ((1, "cpp_sources"), (2, "cuda_sources")):
            value = kwargs.get(key, args[i] if len(args) > i else None)
            every = value if isinstance(value, (list, tuple)) else [value]
            for text in every:
                if not isinstance(text, str) and text is not None:
                    why = getattr(text, "why", "")
                    interp.miss(f"the {key} of an extension are not known{f': {why}' if why else ''}", loc)
            sources += texts(interp, value)
    else:
        value = kwargs.get("sources", args[1] if len(args) > 1 else None)
        sources = read_all(interp, value, loc)
    linked(interp, [containers.show(f) for f in texts(interp, kwargs.get("extra_ldflags"))], loc)
    made = build(interp, title, sources, flags, loc)
    folder = kwargs.get("build_directory")
    _left(interp, made, f"{EXTENSIONS}/{title}" if folder is None else containers.show(folder), sources)
    return made


def _left(interp: Run, made: Extension, folder: str, sources: list[str]) -> None:
    """The library that an extension leaves in its folder can be loaded again by its path."""
    made.attrs["__file__"] = f"{folder}/{made.name}.so"
    paths = [f"{folder}/{made.name}.{i}.cu" for i in range(len(sources))]
    interp.files.texts.update(zip(paths, sources, strict=True))
    artifacts.put(interp.files.built, made.attrs["__file__"], artifacts.Built(tuple(paths), made.flags))


def read_all(interp: Run, value: Any, loc: ir.Loc | None) -> list[str]:
    """The texts of source files named by path."""
    out: list[str] = []
    for item in value if isinstance(value, (list, tuple)) else [value]:
        name = containers.show(item)
        found = find_file(interp, name)
        if found is None:
            interp.miss(f"source file {name.rpartition('/')[2]} is not part of the submission", loc)
            interp.files.left_over = True
        else:
            out.append(found)
    return out


def build(interp: Run, name: str, sources: list[str], flags: list[str], loc: ir.Loc | None) -> Extension:
    """An extension from its sources: C++ is lowered once a text and kept."""

    capability = interp.session.capability
    arch = arch_from_flags(flags) or (capability[0] * 100 + capability[1] * 10 if capability else None)
    env, lowered = cpp_texts.build_env(interp, sources, flags, arch)
    extension = Extension(name, env, lowered, tuple(flags))
    extension.attrs["__exports__"] = cpp_texts.exports(lowered)
    extension.attrs["__loc__"] = loc
    interp.authored.append(extension)
    for label, function in extension.attrs["__exports__"].items():
        if isinstance(env.vars.get(function), Overloads):
            made = ExtFunction(extension, function, env.vars[function])
            interp.custom_ops[label.rpartition("::")[2]] = made
    for module in lowered:
        for reason, where in module.unread:
            interp.miss(reason, where)
    return extension


def arch_from_flags(flags: list[str]) -> int | None:
    """`-gencode=arch=compute_90a,code=sm_90a` -> 900."""
    best: int | None = None
    for flag in flags:
        for marker in ("sm_", "compute_"):
            at = flag.find(marker)
            if at >= 0:
                digits = "".join(c for c in flag[at + len(marker) : at + len(marker) + 3] if c.isdigit())
                if digits:
                    best = max(best or 0, int(digits) * 10)
    return best


# --- files -------------------------------------------------------------------------------------------------


def find_file(interp: Run, path: str) -> str | None:
    """The text of a file of the submission, or one it wrote."""
    files = interp.files.texts
    if path in files:
        return files[path]
    base = path.rpartition("/")[2]
    if base in files:
        text = files[base]
        return text if isinstance(text, Text) else Text(text, (Piece(0, len(text), FileText(base, text), 0),))
    return None


def exists(interp: Run, path: str) -> Any:
    """Whether a path is there: headers and tools are, what only an earlier build can have left is not."""
    if find_file(interp, path) is not None or path in interp.files.built:
        return True
    interp.files.asked.add(path)
    return Unknown((), "whether a build left a file" if path.endswith(BUILT) else "likely: the path exists")


def write_file(interp: Run, path: str, text: Any) -> None:
    if isinstance(text, str):
        bounds.text(interp, text)
        interp.files.texts[path] = text
        interp.files.texts[path.rpartition("/")[2]] = text
    else:
        artifacts.written(interp, path, text)


def open_file(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = containers.show(args[0]) if args else ""
    mode = containers.show(args[1]) if len(args) > 1 else containers.show(kwargs.get("mode", "r"))
    if "w" in mode or "a" in mode:
        outside.file_written(interp, "open", name, loc)
    if asking.about_process(name) and "r" in mode:
        outside.process_file(interp, name, loc)
        asking.asked(interp, name[:40], asking.PROCESS, loc)
    elif interp.trying and "r" in mode and find_file(interp, name) is None and artifacts.read(interp, name) is None:
        exceptions.may_fail(interp, "FileNotFoundError", loc)
    return LibObject("file", {"name": name, "mode": mode})


def file_method(interp: Run, owner: LibObject, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    path = owner.attrs["name"]
    if name == "write" and args and not isinstance(args[0], str):
        artifacts.written(interp, path, args[0])
    if name == "write" and args and isinstance(args[0], str):
        before = find_file(interp, path) if owner.attrs.get("written") else ""
        owner.attrs["written"] = True
        write_file(interp, path, concat((before or "", args[0])))
        return len(args[0])
    if name == "fileno":
        return Unknown((), outside.OWN)
    if name in ("read", "readlines", "readline") and asking.about_process(path):
        return Unknown((), f"{asking.MARK}{path[:40]}")
    if name in ("read", "readlines"):
        found = find_file(interp, path) or artifacts.read(interp, path)
        if found is None:
            interp.miss(f"file {path.rpartition('/')[2]} is not part of the submission", loc)
            return Unknown((), "a file outside the submission")
        return found
    return None


def path_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    out = ""
    for part in map(containers.show, args):
        out = part if part.startswith("/") or not out else f"{out}/{part}"
    return LibObject("pathlib.Path", {"path": out or "."})


def _found(interp: Run, folder: str, pattern: str) -> list[str]:
    """The binaries that a pattern finds: those that were built, or one as an earlier build or the system has it."""
    stem = pattern.rstrip("*.")
    if not stem.endswith(BUILT):
        return []
    one = f"{folder}/{stem}" if folder else stem
    return artifacts.listed(interp.files.built, folder, pattern) or [one.replace("*", "found")]


def glob_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """glob.glob and glob.iglob: what was built, and libraries of the system. Whether others are there is not known."""
    folder, _, pattern = (containers.show(args[0]) if args else "").rpartition("/")
    places = _found(interp, folder, pattern) if path in ("glob.glob", "glob.iglob") else []
    known = places and (artifacts.find(interp.files.built, places[0]) is not None or of_the_system(places[0]))
    return places if known else unknowns.merged(interp, *args, why=path)


def folder_of(path: str) -> str:
    """The folder of a path, which for a path that is not known is not known either."""
    return posixpath.dirname(path) or (path if path.startswith("<") else "")


def path_method(
    interp: Run, owner: LibObject, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    text = str(owner.attrs["path"])
    if name in ("read_text", "read_bytes", "iterdir", "glob", "rglob") and asking.about_process(text):
        outside.process_file(interp, text, loc)
        return asking.asked(interp, text[:40], asking.PROCESS, loc)
    if name in ("glob", "rglob") and args and (places := _found(interp, text, containers.show(args[0]))):
        return [LibObject("pathlib.Path", {"path": place}) for place in places]
    if name in ("read_text", "read_bytes"):
        found = find_file(interp, text) or artifacts.read(interp, text)
        if found is None:
            interp.miss(f"file {text.rpartition('/')[2]} is not part of the submission", loc)
            return Unknown((), "a file outside the submission")
        return found
    if name in ("write_text", "write_bytes") and args:
        write_file(interp, text, args[0])
        return len(args[0]) if isinstance(args[0], str) else 0
    if name in ("resolve", "absolute", "expanduser"):
        return owner
    if name in ("joinpath", "with_name", "with_suffix"):
        base = text if name == "joinpath" else text.rpartition("/")[0]
        if name == "with_suffix":
            return LibObject("pathlib.Path", {"path": text.rpartition(".")[0] + containers.show(args[0])})
        return LibObject("pathlib.Path", {"path": "/".join([base, *map(containers.show, args)])})
    if name in ("exists", "is_file", "is_dir"):
        return exists(interp, text)
    if name == "as_posix":
        return text
    if name in ("rename", "replace", "symlink_to", "hardlink_to", "copy", "move") and args:
        target = containers.show(args[0])
        to, of = (text, target) if name in ("symlink_to", "hardlink_to") else (target, text)
        artifacts.copied(interp, of, to)
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
        return LibObject("file", {"name": f"/tmp/made/file{containers.show(kwargs.get('suffix', ''))}", "mode": "w"})
    if name == "TemporaryDirectory":
        return "/tmp/made"
    return Unknown((), path)


def process(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """subprocess: a compiler that is run builds the source files it is given."""
    interp.note("process", {"symbol": path}, loc)
    command = args[0] if args else kwargs.get("args")
    words = [containers.show(a) for a in command] if isinstance(command, (list, tuple)) else []
    if isinstance(command, str):
        words = [str(w).strip("\"'") for w in str(command).split()]
    if isinstance(kwargs.get("input"), str):  # the text comes through standard input
        write_file(interp, "/dev/stdin.cu", kwargs["input"])
        words.append("/dev/stdin.cu")
    folder = containers.show(kwargs["cwd"]) if kwargs.get("cwd") is not None else ""
    artifacts.command(interp, words, folder, lambda word: find_file(interp, word) is not None)
    if path == "subprocess.Popen":
        return LibObject(
            path, {"returncode": 0, "stdout": "", "stderr": "", "loc": loc, "pid": LibObject("subprocess.pid")}
        )
    return LibObject("subprocess.CompletedProcess", {"returncode": 0, "stdout": "", "stderr": ""})


def ctypes_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    if name in ("CDLL", "PyDLL", "LoadLibrary"):
        return load_library(interp, path, args, kwargs, loc)
    if name == "find_library" and args:  # one of the system's
        return f"lib{containers.show(args[0])}.so"
    made = driver.make(interp, name, args)
    return made if made is not None else LibObject(path, {}, tuple(args), kwargs)


def load_library(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """A shared library: one the submission built from its own sources is read, another is machine code."""
    name = containers.show(args[0]) if args else ""
    if of_the_system(name):
        return LibObject("ctypes.system", {"name": name.rpartition("/")[2]})
    made = artifacts.loaded(interp, name, loc)
    if made is not None:
        return build(interp, name, read_all(interp, list(made.sources), loc), list(made.flags), loc)
    if name in interp.files.asked:
        interp.files.left_over = True
    return Blob(artifacts.without_source(interp, name, loc), loc)


def of_the_system(path: str) -> bool:
    """Whether a library is one of CUDA's or of the system's, by its name and by the folder, if one is given."""
    folder, slash, base = path.rpartition("/")
    folder = f"{posixpath.normpath(folder)}/" if slash else ""  # without one the loader looks in the system's
    if base in ("", "None"):
        return True
    known = not folder or folder.startswith(SYSTEM_FOLDERS) or "-packages/" in folder
    return known and SYSTEM.fullmatch(base) is not None


def linked(interp: Run, flags: list[str], loc: ir.Loc | None) -> None:
    """Flags of a linker: objects and libraries that are neither built here nor the system's are told."""
    for flag in flags:
        ours = artifacts.find(interp.files.built, flag) is not None
        if flag.endswith((".a", ".o", ".so")) and not flag.startswith("-") and not ours and not of_the_system(flag):
            artifacts.without_source(interp, flag, loc)
        if flag.startswith("-l") and not LINKED.fullmatch(flag[2:].lstrip(":")):
            artifacts.without_source(interp, flag, loc)


# --- kernels compiled from text at run time ----------------------------------------------------------------


def raw_kernel(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """torch.cuda._compile_kernel(source, name)."""
    source = args[0] if args else kwargs.get("kernel_source")
    name = args[1] if len(args) > 1 else kwargs.get("kernel_name")
    if not isinstance(source, str):
        interp.miss("the text of a kernel is not known", loc)
        return LibObject("unread.kernel", {"name": "run-time compiled"})
    extension = build(interp, containers.show(name), [source], [], loc)
    return LibObject("raw.kernel", {"extension": extension, "name": containers.show(name)})


def raw_kernel_cupy(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return raw_kernel(interp, args or [kwargs.get("code"), kwargs.get("name")], {}, loc)


def raw_module(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    source = args[0] if args else kwargs.get("code")
    if not isinstance(source, str):
        interp.miss("the text of a module is not known", loc)
        return LibObject("unread.kernel", {"name": "run-time compiled"})
    return LibObject("raw.module", {"extension": build(interp, "module", [source], [], loc)})


def call_raw(interp: Run, owner: LibObject, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Launch a kernel compiled from text: (grid, block, arguments)."""
    env: Env = owner.attrs["extension"].env
    name, _, given = owner.attrs["name"].partition("<")  # a name expression: kernel<4, float>
    found = env.vars.get(name.rpartition("::")[2].strip())
    values = next(
        (a for a in reversed(args) if isinstance(a, (list, tuple)) and tensor_arguments.tensors_in(a)),
        kwargs.get("args"),
    )
    if values is None:  # addresses: (grid, block, arguments)
        values = args[2] if len(args) > 2 and isinstance(args[2], (list, tuple)) else ()
    if not isinstance(found, Overloads):
        interp.miss(f"kernel {owner.attrs['name']} is not in the text", loc)
        return None
    kernel = found.funcs[-1]
    words = [w.strip() for w in given.rstrip("> ").split(",")] if given else []
    template = {p.name: _template_word(w) for p, w in zip(kernel.node.template, words, strict=False)}
    shape = [args[0], args[1]] if len(args) > 1 else args[0] if args else None
    return interp.cpp.launch_kernel(kernel, list(values), template, shape, loc)


def _template_word(word: str) -> Any:
    """A template argument of a name expression: a number, a truth value, or an element type."""
    if word.isdigit():
        return int(word)
    known = dtypes.from_cpp(word)
    return DType(known) if known is not None else {"true": True, "false": False}.get(word, Unknown((), word))
