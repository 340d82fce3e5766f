"""TileLang on the host: functions that make kernels, compiled kernels, the outputs that these allocate, launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import Env, Func
from kbh_lint.dsl.tensors import host_values
from kbh_lint.dsl.tilelang import eager
from kbh_lint.dsl.tilelang.eager import dtype_of
from kbh_lint.host.datamodel import names
from kbh_lint.host.effects import foreign
from kbh_lint.host.gpu import kernel_scope, launch_arguments, launches, launches_that_fail
from kbh_lint.host.gpu.kernel_cache import identity
from kbh_lint.host.torch import recording
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.modelled import Library, Modelled, Site, Value, models
from kbh_lint.host.values.objects import Specialized
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

LANGUAGE = "tilelang"
EAGER = "a TileLang kernel that is called with tensors and builds itself"


class Factory(Modelled):
    """A function under `tilelang.jit`, which makes a kernel for the sizes that it is given. `out` are the places of the
    parameters that a call of the kernel allocates; `configs` are those of an autotuner."""

    def __init__(self, func: Func, out: Value = None, configs: Value = None) -> None:
        super().__init__("tilelang.factory", {"func": func})
        self.func, self.out, self.configs = func, out, configs

    def called(self, site: Site) -> Value:
        """The kernel compiled for these sizes."""
        return _build(site, self)

    @models("compile")
    def compile(self, site: Site, *sizes: Value, **named: Value) -> Value:
        """The kernel compiled for these sizes, as by calling the factory."""
        return _build(site, self)


class Decorator(Modelled):
    """`tilelang.jit(out_idx=...)`, which is called with a function."""

    def __init__(self, path: str, configs: Value, given: dict[str, Value]) -> None:
        super().__init__("tilelang.decorator", {"path": path, "kwargs": given, "configs": configs})
        self.path_of, self.given = path, {"configs": configs, **given}

    def called(self, site: Site) -> Value:
        """The decorated function."""
        return site.run.decorate(self, site.args[0], site.loc) if site.args else super().called(site)


class TileLang(Library):
    """The package `tilelang`."""

    @models("jit", "lazy_jit", "autotune", "prim_func", "macro")
    def decorator(self, site: Site, first: Value = None, *rest: Value, **given: Value) -> Value:
        """The function that `tilelang.jit` makes of a function, or for a call with options a decorator."""
        if site.args and not isinstance(first, (list, dict)):
            return _decorated(site.path, first, given)
        return Decorator(site.path, first, given)

    @models("compile")
    def compile(self, site: Site, func: Value, out_idx: Value = None, *rest: Value, **given: Value) -> Value:
        """The kernel compiled from a `prim_func`; `out_idx` says which parameters it allocates itself."""
        return _compiled(func, out_idx)

    @models("cdiv", "ceildiv")
    def ceil_div(self, site: Site, *given: Value, **named: Value) -> Value:
        """The value of `ceildiv(a, b)`."""
        numbers = [a for a in given if isinstance(a, int)]
        known = len(numbers) == 2 and numbers[1]
        return -(-numbers[0] // numbers[1]) if known else Unknown((), "a dimension")

    @models("next_power_of_2")
    def next_power_of_2(self, site: Site, *given: Value, **named: Value) -> Value:
        """The value of `next_power_of_2(n)`."""
        numbers = [a for a in given if isinstance(a, int)]
        return 1 << max(numbers[0] - 1, 0).bit_length() if numbers else self.other(site)

    @models("symbolic", "dynamic", "var")
    def dimension(self, site: Site, *given: Value, **named: Value) -> Value:
        """The value of a symbolic size, which each call of the kernel binds: unknown."""
        return Unknown((), "a dimension")

    def other(self, site: Site) -> Value:
        """The result of any other function of the package, recorded as unread if it is given tensors."""
        inputs = tensor_arguments.tensors_in(site.args) + tensor_arguments.tensors_in(site.kwargs)
        return foreign.unread_call(site.run, site.path, inputs, site.loc) if inputs else super().other(site)

    def decorate(self, site: Site, decorator: Value, target: Value) -> Value:
        """The result of `@T.prim_func`, `@tilelang.jit(out_idx=...)` or `@tilelang.autotune(configs=...)`."""
        if isinstance(decorator, Decorator):
            return _decorated(decorator.path_of, target, decorator.given)
        return _decorated(site.path, target, {})

    def element_type(self, path: str) -> str | None:
        """The element type that a path such as `tilelang.language.float32` names; None for other paths, such as that of
        `exp`."""
        root, _, name = path.rpartition(".")
        return dtypes.from_tilelang(name) if root == "tilelang.language" and not name.startswith("e") else None

    def launch(self, site: Site, made: Specialized) -> Value:
        """Records a call of a compiled kernel; returns the outputs that the kernel allocates."""
        return _launch(site.run, made, site.args, site.kwargs, site.loc)


def _decorated(path: str, target: object, kwargs: Mapping[str, object]) -> object:
    name = path.rpartition(".")[2]
    if name == "prim_func" and isinstance(target, Func):
        target.language = LANGUAGE
        target.env = Env(kernel_scope.seen(target), target.env)  # it is read here, whatever its names become later
    elif name in ("jit", "lazy_jit") and isinstance(target, Func):
        return (
            _compiled(target, kwargs.get("out_idx"))
            if target.language == LANGUAGE
            else Factory(target, kwargs.get("out_idx"))
        )
    elif name in ("jit", "lazy_jit") and isinstance(target, Factory):
        target.out = kwargs.get("out_idx")
    elif name == "autotune" and isinstance(target, Func) and target.language != LANGUAGE:
        return Factory(target, configs=kwargs.get("configs"))
    elif name == "autotune" and isinstance(target, Factory):
        target.configs = kwargs.get("configs")
    return target


def _compiled(func: object, out: object) -> object:
    if isinstance(func, Specialized) or not isinstance(func, Func):
        return func
    places = out if isinstance(out, (list, tuple)) else [out] if isinstance(out, int) else []
    count = len(func.node.params)
    return Specialized(func, outputs=tuple(p % count for p in places if isinstance(p, int) and count))


def _build(site: Site, factory: Factory) -> object:
    """A call of a function under `tilelang.jit`."""
    interp, args, kwargs, loc = site.run, site.args, site.kwargs, site.loc
    inputs = tensor_arguments.tensors_in(args) + tensor_arguments.tensors_in(kwargs)
    configs, func = factory.configs, factory.func
    if configs is None and not inputs:
        return _compiled(interp.call(func, args, kwargs, loc), factory.out)
    made = configs if configs is None or isinstance(configs, (list, tuple)) else interp.call(configs, args, kwargs, loc)
    listed: list[Any] = list(made) if isinstance(made, (list, tuple)) else []
    known = [config for config in listed if isinstance(config, dict)]
    unknown = made is not None and (not isinstance(made, (list, tuple)) or len(known) < len(listed))
    settings = known[: launches.MAX_CONFIGS] or [{}]
    if inputs:
        return _launched(site, func, settings, unknown, inputs)
    found: dict[Any, Any] = {}
    for config in settings:
        one = _compiled(interp.call(func, args, {**kwargs, **config}, loc), factory.out)
        found.setdefault(identity(one.func) if isinstance(one, Specialized) else id(one), one)
    first, *rest = found.values()
    if isinstance(first, Specialized):
        first.others = tuple(one.func for one in rest if isinstance(one, Specialized))
        if not known or unknown:
            first.cut = "autotune configurations that are not known were not read"
        elif len(known) > launches.MAX_CONFIGS:
            first.cut = f"only {launches.MAX_CONFIGS} of {len(known)} autotune configurations were read"
    return first


def _launched(site: Site, func: Func, settings: list[dict[str, Any]], unknown: bool, inputs: list[Tensor]) -> object:
    """A call with tensors: the kernel builds itself, in each of its configurations, and runs."""
    interp, args, kwargs, loc = site.run, site.args, site.kwargs, site.loc
    made_of = [eager.built(interp, func, args, {**config, **kwargs}, loc) for config in settings]
    kernels = [kernel for kernel in made_of if kernel is not None]
    if unknown or len(kernels) < len(settings):
        return foreign.unread_call(interp, EAGER, inputs, loc)
    whole = Specialized(kernels[0].func, others=tuple(kernel.func for kernel in kernels[1:]))
    _launch(interp, whole, list(kernels[0].arguments.values()), {}, loc)
    return kernels[0].result


def _launch(
    interp: Run, made: Specialized, args: Sequence[object], kwargs: Mapping[str, object], loc: ir.Loc | None
) -> object:
    func: Func = made.func
    names = [p.name for p in func.node.params]
    outputs = made.outputs if len(args) + len(kwargs) < len(names) else ()
    given = [name for i, name in enumerate(names) if i not in outputs]
    bound: dict[str, Any] = {**dict(zip(given, args, strict=False)), **{k: v for k, v in kwargs.items() if k in names}}
    results = []
    for place in outputs:
        param = func.node.params[place]
        bound[param.name] = _allocated(interp, func, param)
        results.append(bound[param.name])
    wrong = _mismatch(interp, func, bound)
    if wrong:
        return foreign.unread_call(interp, wrong, tensor_arguments.tensors_in(bound), loc)
    arguments = launch_arguments.trees(interp, bound)
    binding = {name: launch_arguments.given(arguments[name]) for name in names if name in bound}
    interp.session.outer = partial(host_values.outer, interp, {})
    kernels = (func, *made.others)
    facts = [found for kernel in kernels for found in interp.analyse_kernel(kernel, [binding])]
    launches_that_fail.check_room(interp, func, facts, None, 0, loc)
    tensors = launch_arguments.tensors(arguments.values())
    event = launches.record(interp, func, tensors, [binding] * len(kernels), facts, None, loc)
    event.attrs["kernels"], event.attrs["outer"] = kernels, interp.session.outer
    event.attrs["starts"] = launch_arguments.starts(arguments)
    if made.cut:
        event.attrs["cut"] = made.cut
    return results[0] if len(results) == 1 else tuple(results) if results else None


def _mismatch(interp: Run, func: Func, bound: Mapping[str, object]) -> str:
    """What is wrong with the element types of a launch, which TileLang would refuse; nothing when they fit."""
    for param in func.node.params:
        given = bound.get(param.name)
        declared = _declared(interp, func, param)[1]
        if isinstance(given, Tensor) and "?" not in (declared, given.dtype) and declared != given.dtype:
            return f"a TileLang kernel that declares {param.name} as {declared} and is given {given.dtype}"
    return ""


def _declared(interp: Run, func: Func, param: ir.Param) -> tuple[Any, str]:
    """The shape and the element type that a parameter `C: T.Tensor((M, N), dtype)` declares."""
    node, frame = param.type, names.frame_of(interp, func.env)
    parts = node.args if isinstance(node, ir.Call) else ()
    if isinstance(node, ir.Index):
        parts = node.index.items if isinstance(node.index, ir.Seq) else (node.index,)
    found = [interp.eval(part, frame) for part in parts[:2]]
    shape = tuple(d if isinstance(d, int) else None for d in found[0]) if found and _is_shape(found[0]) else None
    return shape, dtype_of(found[1]) if len(found) > 1 else "?"


def _allocated(interp: Run, func: Func, param: ir.Param) -> Tensor:
    """The output that a call makes for a parameter."""
    shape, dtype = _declared(interp, func, param)
    return recording.make(interp, shape, dtype, "empty")


def _is_shape(value: object) -> bool:
    return isinstance(value, (tuple, list))


LIBRARY = TileLang()
