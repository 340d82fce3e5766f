"""Launches of CUDA kernels from C++: which kernel, and what it is given."""

from __future__ import annotations

from typing import Any

from kbh_lint import ir
from kbh_lint.host import cpp_libraries, cpp_types, device_flags, lanes, launches, tensor_flags
from kbh_lint.host.objects import HostDescriptor, LibObject, Pointer, Slot
from kbh_lint.host.tensors import Tensor, Unknown
from kbh_lint.values import UNKNOWN, Env, Func, Overloads, StructArg


def launch(run: Any, node: ir.Launch, env: Env) -> Any:
    """`kernel<<<grid, block, shared, stream>>>(...)`."""
    target = run.eval(node.func, env)
    args = [a.get() if isinstance(a, Slot) else a for a in run.arguments(node.args, env)]
    shape = [run.eval(n, env) if n is not None else None for n in (node.grid, node.block)]
    stream = run.eval(node.stream, env) if node.stream is not None else None
    with lanes.on(run.interp, stream.get() if isinstance(stream, Slot) else stream):
        return launch_value(run, target, args, shape, node.loc)


def launch_value(run: Any, target: Any, args: list[Any], grid: Any, loc: ir.Loc | None) -> Any:
    """Launch whatever a kernel expression gave; `grid` is [grid, block] where known."""
    if isinstance(target, LibObject) and target.path == "cpp.template":
        func = run.choose(target.attrs["overloads"], args, target.attrs["args"], target.attrs["env"])
        return launch_kernel(
            run, func, args, run.template_of(func, target.attrs["args"], target.attrs["env"]), grid, loc
        )
    if isinstance(target, Overloads):
        return launch_kernel(run, run.choose(target, args), args, {}, grid, loc)
    if isinstance(target, Func):
        return launch_kernel(run, target, args, {}, grid, loc)
    run.interp.miss("a kernel that is not in the text was launched", loc)
    return cpp_libraries.opaque(run, "unread kernel", args, loc)


def launch_kernel(
    run: Any, func: Func, args: list[Any], template: dict[str, Any], grid: Any, loc: ir.Loc | None
) -> Any:
    """Record the launch of a CUDA kernel."""
    interp = run.interp
    bound = dict(zip((p.name for p in func.node.params), args, strict=False))
    env = Env(dict(template), func.env)
    run.deduce(func, args, env)
    tensors = launches.pointer_arguments(interp, {"all": _pointers(list(bound.values()))})
    binding: dict[str, Any] = {p.name: _template_arg(env.vars.get(p.name)) for p in func.node.template}
    for param in func.node.params:
        value = bound.get(param.name)
        binding[param.name] = kernel_arg(run, value, param, env)
    held = {**device_flags.values(interp, func), **tensor_flags.values(interp, bound)}
    (facts,) = interp.analyse_kernel(func, [{**binding, **held}])
    dims = (
        [cpp_libraries.dim(g) for g in grid]
        if isinstance(grid, list) and len(grid) == 2
        else [cpp_libraries.dim(grid), None]
    )
    steer = interp.contents_of([*(v for v in bound.values() if isinstance(v, Unknown)), *dims])
    event = launches.record(interp, func, tensors, [binding], [facts], dims[0], loc, steer, dims[1])
    event.attrs["numbers"], event.attrs["starts"] = launches.numbers(interp, bound), launches.starts(interp, bound)
    device_flags.settle(interp, func, facts)
    tensor_flags.settle(interp, bound, [facts])
    return None


def kernel_arg(run: Any, value: Any, param: ir.Param, env: Env) -> Any:
    """An argument of a kernel as its analysis takes it: what a pointer of the parameter's type leads to."""
    seen = param.type if isinstance(param.type, ir.TypeRef) else None
    if isinstance(value, Slot):
        value = value.get()
    if seen is not None and seen.pointers and isinstance(value, (Pointer, Tensor, int)):
        tensor = (
            value.tensor
            if isinstance(value, Pointer)
            else run.interp.tensor_at(value)
            if isinstance(value, int)
            else value
        )
        if isinstance(tensor, Tensor):
            dtype = cpp_types.element(run, seen, env) or (value.dtype if isinstance(value, Pointer) else tensor.dtype)
            return launches.kernel_arg(run.interp, Pointer(tensor, dtype), False)
    if isinstance(value, LibObject) and value.path.startswith("struct:"):
        return struct_arg(run, value, 0)
    return launches.kernel_arg(run.interp, value, False)


def struct_arg(run: Any, value: LibObject, depth: int) -> StructArg:
    """A struct passed by value: the pointers and descriptors in it, also in structs and arrays in it."""
    fields: list[tuple[str, Any]] = []
    for name, item in value.attrs.items():
        if isinstance(item, Slot):
            item = item.get()
        if isinstance(item, LibObject) and item.path.startswith("struct:") and depth < 4:
            fields.append((name, struct_arg(run, item, depth + 1)))
        elif isinstance(item, (Pointer, Tensor, HostDescriptor)):
            fields.append((name, launches.kernel_arg(run.interp, item, False)))
        elif isinstance(item, (list, tuple)):
            held = [v for v in item[:64] if isinstance(v, (Pointer, Tensor, HostDescriptor))]
            if held:
                fields.append((name, tuple(launches.kernel_arg(run.interp, v, False) for v in held)))
    return StructArg(tuple(fields))


def _template_arg(value: Any) -> Any:
    return UNKNOWN if value is None or isinstance(value, Unknown) else value


def _pointers(values: list[Any]) -> list[Any]:
    out: list[Any] = []
    for value in values:
        if isinstance(value, Slot):
            value = value.get()
        if isinstance(value, LibObject) and value.path.startswith("struct:"):
            out.extend(v for v in value.attrs.values() if isinstance(v, (Pointer, Tensor)))
        else:
            out.append(value)
    return out
