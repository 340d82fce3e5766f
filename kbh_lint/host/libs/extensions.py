"""Extensions: what a submission builds, loads and calls of C++ and of kernels compiled from text at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Env, Value
from kbh_lint.host.datamodel import shown
from kbh_lint.host.effects import artifacts, builds, includes
from kbh_lint.host.libs import custom_ops
from kbh_lint.host.values.named_objects import SystemLibrary
from kbh_lint.host.values.objects import Blob, Extension, UnknownLibrary
from kbh_lint.source.embedded import doubts

if TYPE_CHECKING:
    from kbh_lint.host.cpp.bindings import Bindings
    from kbh_lint.host.run import Run


MAX_SOURCES = 64


EXTENSIONS = "/cache/torch_extensions"  # where torch builds extensions that are given no folder


def texts(interp: Run, value: Value) -> list[str]:
    """Returns the source texts in a string or a list of strings; other values are skipped."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value[:MAX_SOURCES] for t in texts(interp, v)]
    return []


def built_inline(
    run: Run,
    title: str,
    sources: dict[str, Value],
    given: Options,
    functions: Value,
    loc: ir.Loc | None,
) -> Extension:
    """Models torch.utils.cpp_extension.load_inline: builds an extension from `sources`, texts by the names of their
    arguments."""
    listed: list[str] = []
    whole = True
    for key, value in sources.items():
        for text in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(text, (list, tuple)):
                run.fails("builtins.TypeError", loc, f"a {type(text).__name__} among the {key}")
            if not isinstance(text, str) and text is not None:
                whole = False
                why = getattr(text, "why", "")
                run.miss(f"the {key} of an extension are not known{f': {why}' if why else ''}", loc)
        listed += texts(run, value)
    wanted = texts(run, list(functions) if isinstance(functions, dict) else functions) if whole else []
    if not whole:
        run.files.unread_build = True
    return built_of(run, title, listed, given, wanted, loc)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of building an extension with torch."""

    extra_cuda_cflags: Value = None
    extra_cflags: Value = None
    extra_ldflags: Value = None
    extra_include_paths: Value = None
    build_directory: Value = None

    @classmethod
    def of(cls, named: Mapping[str, Value]) -> Options:
        """Takes the build options from the named arguments of a call."""
        return cls(*(named.get(one.name) for one in fields(cls)))


def built_of(
    run: Run, title: str, sources: list[str], given: Options, wanted: Sequence[str], loc: ir.Loc | None
) -> Extension:
    """Builds an extension as torch does, which leaves the library in its folder. `wanted` are functions that it must
    define."""
    flags = [shown.show(flag) for value in (given.extra_cuda_cflags, given.extra_cflags) for flag in texts(run, value)]
    if not sources:
        run.files.unread_build = True
    linked(run, [shown.show(flag) for flag in texts(run, given.extra_ldflags)], loc)
    elsewhere = bool(given.extra_include_paths) or any(flag.startswith(("-I", "-isystem")) for flag in flags)
    made = build(run, title, sources, flags, loc, wanted, elsewhere)
    folder = f"{EXTENSIONS}/{title}" if given.build_directory is None else shown.show(given.build_directory)
    _left(run, made, folder, sources)
    return made


def _left(interp: Run, made: Extension, folder: str, sources: list[str]) -> None:
    """The library that an extension leaves in its folder can be loaded again by its path."""
    made.attrs["__file__"] = f"{folder}/{made.name}.so"
    paths = [f"{folder}/{made.name}.{i}.cu" for i in range(len(sources))]
    interp.files.texts.update(zip(paths, sources, strict=True))
    artifacts.put(interp.files.built, made.attrs["__file__"], artifacts.Built(tuple(paths), made.flags))


def read_all(interp: Run, value: Value, loc: ir.Loc | None) -> list[str]:
    """Returns the texts of source files, given by path; notes those that are not part of the submission."""
    out: list[str] = []
    for item in value if isinstance(value, (list, tuple)) else [value]:
        name = shown.show(item)
        found = builds.find_file(interp, name)
        if found is None:
            interp.miss(f"source file {name.rpartition('/')[2]} is not part of the submission", loc)
            interp.files.unread_build = True
            interp.files.left_over = True
        else:
            out.append(found)
    return out


def build(
    interp: Run, name: str, sources: list[str], flags: list[str], loc: ir.Loc | None,
    wanted: Sequence[str] = (), elsewhere: bool = False,
) -> Extension:  # fmt: skip
    """Builds an extension from source texts; C++ is lowered once a text and kept. `wanted` are functions that it must
    define; `elsewhere` says that further include folders are named."""
    sources = [includes.spliced(interp, text) for text in sources]
    capability = interp.session.capability
    arch = arch_from_flags(flags) or (capability[0] * 100 + capability[1] * 10 if capability else None)
    env, lowered = interp.cpp.built(sources, flags, arch)
    known = not any(doubts(text) for text in sources)
    if known and interp.trying and refused(interp, lowered, env):
        interp.fails("builtins.RuntimeError", loc)
    absent = [name for name in wanted if name.isidentifier() and not any(name in str(text) for text in sources)]
    if known and absent and not any('#include "' in str(text) for text in sources):
        interp.fails("builtins.RuntimeError", loc, f"{name} has no function {absent[0]}")
    header = interp.cpp.unknown_header(lowered) if interp.trying and not elsewhere else ""
    if header and builds.find_file(interp, header) is None:
        interp.may_fail("RuntimeError", loc)
    extension = Extension(name, env, lowered, tuple(flags))
    extension.attrs["__bindings__"] = bound = _bindings(interp, lowered)
    extension.attrs["__loc__"] = loc
    interp.authored.append(extension)
    for label, where in bound.operators:
        custom_ops.replaced(interp, label, None, where)
    for label in bound.functions:
        made = interp.cpp.exported(extension, label)
        if made is not None:
            interp.custom_ops[label.rpartition("::")[2]] = made
    for label in bound.classes:
        interp.custom_ops[f"classes.{label}"] = interp.cpp.exported(extension, label)
    for module in lowered:
        for reason, where in module.unread:
            interp.miss(reason, where)
    return extension


def _bindings(interp: Run, lowered: list[ir.Module]) -> Bindings:
    """What texts bind, looked for once a file."""
    key = tuple(map(id, lowered))
    found: Bindings | None = interp.session.bindings.get(key)
    if found is None:
        found = interp.session.bindings[key] = interp.cpp.bound(lowered)
    return found


def refused(interp: Run, lowered: list[ir.Module], env: Env) -> str:
    """Returns why a compiler certainly refuses these texts; empty where one may accept them."""
    key = tuple(map(id, lowered))
    if key not in interp.session.refused:
        interp.session.refused[key] = interp.cpp.refused(lowered, env)
    return interp.session.refused[key]


def arch_from_flags(flags: list[str]) -> int | None:
    """Returns the highest architecture among compiler flags, `-gencode=arch=compute_90a,code=sm_90a` being 900; None
    without one."""
    best: int | None = None
    for flag in flags:
        for marker in ("sm_", "compute_"):
            at = flag.find(marker)
            if at >= 0:
                digits = "".join(c for c in flag[at + len(marker) : at + len(marker) + 3] if c.isdigit())
                if digits:
                    best = max(best or 0, int(digits) * 10)
    return best


def load_library(interp: Run, name: str, loc: ir.Loc | None) -> Value:
    """Loads a shared library: one that the submission built from its own sources is read, a system library is known by
    name, any other is machine code."""
    if builds.of_the_system(name):
        return SystemLibrary("ctypes.system", {"name": name.rpartition("/")[2]})
    made = artifacts.loaded(interp, name, loc)
    if made is not None:
        return build(interp, name, read_all(interp, list(made.sources), loc), list(made.flags), loc)
    if name in interp.files.asked:
        interp.files.left_over = True
    kind = UnknownLibrary if name.startswith("<") else Blob
    return kind(artifacts.without_source(interp, name, loc), loc)


def linked(interp: Run, flags: list[str], loc: ir.Loc | None) -> None:
    """Notes the objects and libraries among linker flags that are neither built here nor the system's."""
    for flag in flags:
        ours = artifacts.find(interp.files.built, flag) is not None
        if (
            flag.endswith((".a", ".o", ".so"))
            and not flag.startswith("-")
            and not ours
            and not builds.of_the_system(flag)
        ):
            artifacts.without_source(interp, flag, loc)
        if flag.startswith("-l") and not builds.LINKED.fullmatch(flag[2:].lstrip(":")):
            artifacts.without_source(interp, flag, loc)
