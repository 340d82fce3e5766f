"""Launches of CUDA kernels from C++: which kernel, and what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import UNKNOWN, Env, Func, Overloads, Value
from kbh_lint.cpp.overloads import Choice
from kbh_lint.host.cpp import arguments as cpp_arguments
from kbh_lint.host.cpp import classes as cpp_classes
from kbh_lint.host.cpp import construction, device_flags
from kbh_lint.host.cpp import libraries as cpp_libraries
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.cpp import types as cpp_types
from kbh_lint.host.gpu import handshakes, launch_arguments, launch_limits, launches, pointer_tables
from kbh_lint.host.gpu.launch_settings import Settings
from kbh_lint.host.python import lanes
from kbh_lint.host.torch import tensor_flags
from kbh_lint.host.values import taint
from kbh_lint.host.values.cpp_objects import Pointer, Slot, Template
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp


def launch(run: Cpp, node: ir.Launch, env: Env) -> Value:
    """Evaluates `kernel<<<grid, block, shared, stream>>>(...)`."""
    target = run.eval(node.func, env)
    args = run.arguments(node.args, env)
    settings = Settings(
        *[run.eval(n, env) if n is not None else None for n in (node.grid, node.block)],
        *[run.eval(n, env) if n is not None else 0 for n in (node.shared, node.stream)],
    )
    return _launch_set(run, target, args, settings, node.loc)


def _launch_set(run: Cpp, target: Value, args: list[Value], settings: Settings, loc: ir.Loc | None) -> Value:
    """Launches the value of a kernel expression with these settings, on their stream."""
    args = [cpp_numbers.plain(a.get() if isinstance(a, Slot) else a) for a in args]
    shape = [cpp_numbers.plain(settings.grid), cpp_numbers.plain(settings.block)]
    stream = settings.stream.get() if isinstance(settings.stream, Slot) else settings.stream
    _limit(run, shape[1], cpp_numbers.plain(settings.shared))
    plain = stream is None or type(stream) is int and stream == 0
    with lanes.on_default(run.interp) if plain else lanes.on(run.interp, stream):
        return launch_value(run, target, args, shape, loc)


def _limit(run: Cpp, block: object, shared: object) -> None:
    """Notes that a launch asks for more threads or dynamic shared memory than any GPU has."""
    block = block.get() if isinstance(block, Slot) else block
    sides = [block] if type(block) is int else list(block.attrs.values()) if isinstance(block, LibObject) else []
    threads = prod(sides) if sides and all(type(side) is int for side in sides) else 0
    shared = shared.get() if isinstance(shared, Slot) else shared
    if launch_limits.too_much(run.interp, threads, shared if type(shared) is int else 0):
        run.refused_launch = True


def launch_value(run: Cpp, target: Value, args: list[Any], grid: Value, loc: ir.Loc | None) -> Any:
    """Launches the value of a kernel expression; `grid` is [grid, block] where known, or the `Settings` of a call. A
    kernel without source is recorded as unread."""
    if isinstance(grid, Settings):
        return _launch_set(run, target, args, grid, loc)
    args = [launch_arguments.lambda_opened(run.interp, arg) for arg in args]
    given, env = (), None
    func = target
    if isinstance(target, Template):
        func, given, env = target.attrs["overloads"], target.attrs["args"], target.attrs["env"]
    if isinstance(func, (Func, Overloads)):
        return launch_kernel(run, run.choose(func, args, given, env), args, grid, loc)
    run.interp.lost("a kernel that is not in the text was launched", loc)
    return cpp_libraries.opaque(run, "unread kernel", args, loc)


def launch_kernel(run: Cpp, choice: Choice, args: Sequence[Value], grid: Value, loc: ir.Loc | None) -> Any:
    """Records the launch of the CUDA kernel that overload resolution chose."""
    interp, func = run.interp, choice.func
    args = [_as_parameter(run, func, i, arg, Env(dict(choice.bound), func.env)) for i, arg in enumerate(args)]
    names = (param.name for param in func.node.params)
    arguments = launch_arguments.trees(interp, dict(zip(names, args, strict=False)))
    unread = launch_arguments.unread_class(arguments.values())
    if unread:
        return cpp_libraries.opaque(run, f"the class {unread}, an object of which {func.node.name} is given", args, loc)
    bound = {name: argument.value for name, argument in arguments.items()}
    env = Env(dict(choice.bound), func.env)
    tensors = launch_arguments.tensors(arguments.values())
    binding: dict[str, Any] = {p.name: _template_arg(env.vars.get(p.name)) for p in func.node.template}
    for param in func.node.params:
        argument, seen = arguments.get(param.name), param.type
        if argument is None:
            binding[param.name] = UNKNOWN
            continue
        pointed = isinstance(seen, ir.TypeRef) and seen.pointers and argument.tensor is not None
        dtype = cpp_types.element(run, seen, env) if pointed and isinstance(seen, ir.TypeRef) else None
        binding[param.name] = launch_arguments.given(argument, seen_as=dtype or "")
    held = {**device_flags.values(interp, func), **tensor_flags.values(interp, bound)}
    (facts,) = interp.analyse_kernel(func, [{**binding, **held}])
    dims = (
        [cpp_libraries.dim(g) for g in grid]
        if isinstance(grid, list) and len(grid) == 2
        else [cpp_libraries.dim(grid), None]
    )
    steer = (*cpp_arguments.numbers(interp, list(bound.values())), *interp.contents_of(dims))
    taint.handed(interp, [*bound.values(), *env.vars.values(), *dims], loc)
    event = launches.record(interp, func, tensors, [binding], [facts], dims[0], loc, steer, dims[1])
    event.attrs["numbers"], event.attrs["starts"] = launches.numbers(interp, bound), launch_arguments.starts(arguments)
    lost = next((p.name for p in func.node.params if _is_lost(p.type, arguments.get(p.name))), "")
    if lost:
        event.attrs["lost"] = f"what {func.node.name} is given as {lost} could not be followed"
    pointer_tables.after_launch(tensors, event, [facts])
    device_flags.after_launch(interp, func, facts)
    tensor_flags.after_launch(interp, bound, [facts])
    handshakes.after_launch(interp, event)
    return None


def _as_parameter(run: Cpp, func: Func, at: int, arg: Value, env: Env) -> Value:
    """What an object converts to that is given for an address, and the object that a class makes of an address."""
    kind = func.node.params[at].type if at < len(func.node.params) else None
    if not isinstance(kind, ir.TypeRef):
        return arg
    if isinstance(arg, (Tensor, Pointer)):
        return construction.converted(run, kind, arg, env)
    if not kind.pointers or not isinstance(arg, LibObject):
        return arg
    made = cpp_classes.converted_to(run, arg, kind, env)
    return arg if made is NotImplemented else made


def _is_lost(seen: Value, argument: launch_arguments.Argument | None) -> bool:
    """Whether a parameter is an address, and nobody knows of what."""
    if argument is None or not isinstance(seen, ir.TypeRef) or not seen.pointers:
        return False
    if argument.tensor is not None or not isinstance(argument.value, (Unknown, LibObject)):
        return False
    if argument.struct or argument.parts:  # an object that converts to an address, by what nobody followed
        return dtypes.from_cpp(seen.name) is not None
    return True


def _template_arg(value: Value) -> Value:
    return UNKNOWN if value is None or isinstance(value, Unknown) else value
