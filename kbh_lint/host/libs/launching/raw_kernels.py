"""Kernels that are compiled from texts at run time, whoever compiles them, and their launches.

CuPy, torch, cuda.core and PyCUDA make the same of a text: an extension of which one function is a kernel. What each of
them calls the settings of a launch is its own; `launched` is given these as `Settings`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import DType, Env, Overloads, Value
from kbh_lint.host.datamodel import shown
from kbh_lint.host.effects import artifacts, builds, foreign
from kbh_lint.host.gpu import launch_limits
from kbh_lint.host.gpu.launch_settings import Settings
from kbh_lint.host.libs import driver, extensions
from kbh_lint.host.python import lanes
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.library_objects import UnreadKernel
from kbh_lint.host.values.modelled import Methods, Modelled, Owner, Rows, Site, models
from kbh_lint.host.values.named_objects import CurrentStream, RawKernel, RawModule
from kbh_lint.host.values.objects import Blob, LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

REFUSED = "builtins.RuntimeError"  # what torch raises where the driver refuses a launch


class Image(Modelled):
    """A module of machine code without source."""

    def __init__(self, name: str, loc: ir.Loc | None) -> None:
        super().__init__("raw.image")
        self.name, self.loc = name, loc

    @models("get_function", "get_kernel")
    def kernel(self, site: Site, name: Value) -> Value:
        """Models `module.get_function(name)`: a kernel of machine code."""
        return Blob(f"{self.name}:{shown.show(name)}", self.loc)


def kernel(run: Run, source: Value, name: Value, loc: ir.Loc | None, raised: str = REFUSED) -> Value:
    """Models `torch.cuda._compile_kernel(source, name)` and `cupy.RawKernel(source, name)`. `raised` is the exception
    of a launch that asks for too much."""
    if not isinstance(source, str):
        run.miss("the text of a kernel is not known", loc)
        return UnreadKernel("run-time compiled")
    extension = extensions.build(run, shown.show(name), [source], [], loc)
    return RawKernel("raw.kernel", {"extension": extension, "name": shown.show(name), "raised": raised})


def module(
    run: Run, source: Value, loc: ir.Loc | None, flags: Sequence[str] = (), raised: str = REFUSED, path: Value = None
) -> Value:
    """Models `cupy.RawModule(code=source)` and what other packages make of a text; of a file it is machine code."""
    if source is None and isinstance(path, str):
        found = builds.find_file(run, path)
        if found is None:
            return Image(artifacts.without_source(run, path, loc), loc)
        source = found
    if not isinstance(source, str):
        run.miss("the text of a module is not known", loc)
        return UnreadKernel("run-time compiled")
    extension = extensions.build(run, "module", [source], list(flags), loc)
    return RawModule("raw.module", {"extension": extension, "raised": raised})


def launched(run: Run, owner: Owner, values: Sequence[Value], settings: Settings, loc: ir.Loc | None) -> Value:
    """Launches a kernel compiled from text with these arguments, on the stream of the settings, or on the current one
    where that is None."""
    env: Env = owner.attrs["extension"].env
    name, _, given = owner.attrs["name"].partition("<")  # a name expression: kernel<4, float>
    found = env.vars.get(name.lstrip("&").rpartition("::")[2].strip())
    if not isinstance(found, Overloads):
        run.miss(f"kernel {owner.attrs['name']} is not in the text", loc)
        foreign.addressed(run, str(owner.attrs["name"]), list(values), loc)
        return None
    launch_limits.check(run, settings.block, settings.shared, owner.attrs["raised"], loc)
    func = found.funcs[-1]
    words = [w.strip() for w in given.rstrip("> ").split(",")] if given else []
    template = {p.name: _template_word(w) for p, w in zip(func.node.template, words, strict=False)}
    choice = run.cpp.choose(func, list(values))
    choice = replace(choice, func=func, bound={**choice.bound, **template})
    stream, shape = settings.stream, [settings.grid, settings.block]
    if stream is None:
        return run.cpp.launch_kernel(choice, list(values), shape, loc)
    plain = isinstance(stream, CurrentStream) or type(stream) is int and stream == 0
    with lanes.on_default(run) if plain else lanes.on(run, stream):
        return run.cpp.launch_kernel(choice, list(values), shape, loc)


def by_anything(site: Site, kernel: Value, values: Sequence[Value], settings: Settings) -> Value:
    """Launches what a package takes for a kernel: one compiled from text, machine code, or what nobody read."""
    run, loc = site.run, site.loc
    given = [driver.argument(run, value) for value in values]
    if isinstance(kernel, RawKernel):
        return launched(run, kernel, given, settings, loc)
    if isinstance(kernel, Blob):
        return foreign.run_blob(run, kernel, foreign.handed(run, given), loc)
    run.miss("a kernel that is not known was launched", loc)
    foreign.addressed(run, site.path, given, loc)
    return None


def _template_word(word: str) -> Any:
    """A template argument of a name expression: a number, a truth value, or an element type."""
    if word.isdigit():
        return int(word)
    known = dtypes.from_cpp(word)
    return DType(known) if known is not None else {"true": True, "false": False}.get(word, Unknown((), word))


class _Modules(Methods[Owner]):
    """A module that was compiled from a text."""

    @models("get_function", "get_kernel")
    def kernel(self, site: Site, owner: LibObject, name: Value) -> Value:
        """Models `module.get_function(name)`: one of the kernels of the text."""
        held = {key: owner.attrs[key] for key in ("extension", "raised")}
        return RawKernel("raw.kernel", {**held, "name": shown.show(name)})


class _Kernels(Methods[Owner]):
    """A kernel that was compiled from a text."""

    def called(self, site: Site, owner: Owner) -> Value:
        """Launches a kernel compiled from text; the arguments of the call are (grid, block, arguments)."""
        given = dict(zip(("grid", "block", "args", "shared_mem", "stream"), site.args, strict=False)) | site.kwargs
        values = given.get("args", ())
        if not isinstance(values, (list, tuple)):
            values = next((a for a in reversed(site.args) if tensor_arguments.tensors_in(a)), ())
        settings = Settings(given.get("grid"), given.get("block"), given.get("shared_mem", 0), given.get("stream"))
        return launched(site.run, owner, list(values) if isinstance(values, (list, tuple)) else [], settings, site.loc)

    @models("set_shared_memory_config")
    def more_shared(self, site: Site, owner: LibObject, shared_mem_bytes: Value = 0) -> None:
        """Models `kernel.set_shared_memory_config(bytes)` of torch, which raises where no GPU has so much."""
        launch_limits.check(site.run, 0, shared_mem_bytes, owner.attrs["raised"], site.loc)

    @models("compile")
    def compile(self, site: Site, owner: LibObject, *options: Value, **named: Value) -> None:
        """Models `kernel.compile()`, which builds ahead of the first launch."""


METHODS: Rows = {RawModule: _Modules(), RawKernel: _Kernels()}
