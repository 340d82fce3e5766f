"""TileLang's eager kernels: functions under `tilelang.jit` that are called with tensors and build themselves.

Such a function declares its tensors by annotations in its body (`A: T.Tensor((M, K), dtype)`), names the sizes that
these bind (`M, K = T.const("M, K")`), makes its outputs (`C = T.empty((M, N), dtype)`), holds one `with T.Kernel(...)`
and returns the outputs. What stands before the kernel runs as Python; the kernel is that of a `prim_func` with the
tensors as its parameters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import DType, Env, Func, Sym, Value
from kbh_lint.host.gpu import kernel_scope
from kbh_lint.host.python.calls import bind
from kbh_lint.host.torch import recording
from kbh_lint.host.values.frames import Frame, target_names
from kbh_lint.host.values.tensors import Tensor

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_SIZES = ("const", "dynamic", "symbolic")
_KEPT = "tilelang.eager"  # the parts of a function, made once
_MARK = 1 << 40  # no size of a tensor, and what tiles divide


class Kernel:
    """What a call of an eager kernel comes to: the kernel, its arguments, and what the call gives back."""

    def __init__(self, func: Func, arguments: dict[str, Any], result: Value) -> None:
        self.func, self.arguments, self.result = func, arguments, result


def built(interp: Run, func: Func, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Kernel | None:
    """The kernel that one call of an eager function builds, with its arguments and results; None for functions of
    another form."""
    parts = _parts(func)
    if parts is None:
        return None
    before, kernel, returned = parts
    env = Env({}, func.env)
    bind(func, args, kwargs, env)
    frame = Frame(env, interp.scopes.main, loc, func)
    declared = {node.name: node for node in before if isinstance(node, ir.Decl) and node.annotation is not None}
    declared |= {p.name: ir.Decl(p.name, None, None, frozenset(), p.loc, p.type) for p in func.node.params
                 if isinstance(env.vars.get(p.name), Tensor) and isinstance(p.type, (ir.Call, ir.Index))}  # fmt: skip
    tensors = {name: value for name, value in env.vars.items() if isinstance(value, Tensor)}
    if not tensors.keys() <= declared.keys():
        return None
    sizes = _sizes(interp, before, Frame(Env(dict(env.vars), func.env), interp.scopes.main, loc, func), declared)
    types = {name: node.annotation for name, node in declared.items() if name in tensors}
    made = _run_before(interp, before, frame, sizes)
    if made is None:
        return None
    for name, (tensor, call) in made.items():
        tensors[name], types[name] = tensor, call
    result = interp.eval(returned, frame) if returned is not None else None
    params = tuple(ir.Param(name, types[name], None, "positional", func.node.loc) for name in tensors)
    given = {name: tensors[name] for name in tensors}
    kept = {name: value for name, value in env.vars.items() if name not in given}
    node = _node(func, params, kernel)
    whole = Func(node, Env(kept, func.env), language="tilelang")
    whole.env = Env(kernel_scope.seen(whole), whole.env)
    return Kernel(whole, given, result)


def _run_before(
    interp: Run, before: tuple[ir.Stmt, ...], frame: Frame, sizes: dict[str, int]
) -> dict[str, tuple[Tensor, ir.Call]] | None:
    """Runs what stands before the kernel. The outputs that calls of `T.empty` make, by name; None where a size is not
    known, or something leaves the function."""
    made: dict[str, tuple[Tensor, ir.Call]] = {}
    for node in before:
        if isinstance(node, ir.Decl):
            continue
        called = _call_of(interp, node, frame)
        names = (
            [name for target in node.targets for name in target_names(target)] if isinstance(node, ir.Assign) else []
        )
        if called in _SIZES:
            if any(name not in sizes for name in names):
                return None
            frame.env.vars.update((name, sizes[name]) for name in names)
        elif called == "empty" and len(names) == 1 and isinstance(node, ir.Assign) and isinstance(node.value, ir.Call):
            output = frame.env.vars[names[0]] = _empty(interp, node.value, frame)
            made[names[0]] = output, node.value
        elif interp.statement(node, frame) is not None:
            return None
    return made


def _parts(func: Func) -> tuple[tuple[ir.Stmt, ...], ir.With, ir.Expr | None] | None:
    """What stands before the kernel, the kernel, and what is returned."""
    body = func.node.body or ()
    at = next((i for i, node in enumerate(body) if isinstance(node, ir.With)), None)
    kernel = body[at] if at is not None else None
    if at is None or not isinstance(kernel, ir.With):
        return None
    after = body[at + 1 :]
    if len(after) > 1 or after and not isinstance(after[0], ir.Return):
        return None
    returned = after[0].value if after and isinstance(after[0], ir.Return) else None
    return body[:at], kernel, returned


def _node(func: Func, params: tuple[ir.Param, ...], kernel: ir.With) -> ir.FuncDef:
    """The kernel's function: one object for one set of parameters, since kernels are told apart by it."""
    known = func.attrs.setdefault(_KEPT, {})
    names = tuple(param.name for param in params)
    if names not in known:
        known[names] = replace(func.node, params=params, body=(kernel,), decorators=())
    return known[names]  # type: ignore[no-any-return]


def _sizes(interp: Run, before: tuple[ir.Stmt, ...], frame: Frame, declared: dict[str, ir.Decl]) -> dict[str, int]:
    """The sizes that tensors bind. What stands before the kernel runs once with a number of its own for each size:
    where that number is a side of a shape that is declared, the tensor's side is the size."""
    tensors = {name: value for name, value in frame.env.vars.items() if isinstance(value, Tensor)}
    marks: dict[int, str] = {}
    for node in before:
        made = _call_of(interp, node, frame)
        if not isinstance(node, ir.Assign) or made == "empty":
            continue
        if made in _SIZES:
            for name in (name for target in node.targets for name in target_names(target)):
                mark = _MARK * (2 * len(marks) + 1)
                marks[mark] = name
                frame.env.vars[name] = mark
        else:
            interp.statement(node, frame)
    found: dict[str, int] = {}
    for name, tensor in tensors.items():
        node_of = declared[name].annotation
        parts = node_of.args if isinstance(node_of, ir.Call) else ()
        if isinstance(node_of, ir.Index):
            parts = node_of.index.items if isinstance(node_of.index, ir.Seq) else (node_of.index,)
        sides = interp.eval(parts[0], frame) if parts else None
        if isinstance(sides, (tuple, list)) and tensor.shape is not None and len(sides) == len(tensor.shape):
            for side, size in zip(sides, tensor.shape, strict=True):
                if isinstance(side, int) and isinstance(size, int) and side in marks:
                    found.setdefault(marks[side], size)
    return found


def _call_of(interp: Run, node: ir.Stmt, frame: Frame) -> str:
    """The name of the TileLang function in `name = T.function(...)`; empty for any other statement."""
    if not isinstance(node, ir.Assign) or not isinstance(node.value, ir.Call):
        return ""
    called = node.value.func
    if not isinstance(called, (ir.Attr, ir.Name)):
        return ""
    value = interp.eval(called, frame)
    path = value.path if isinstance(value, Sym) else ""
    return path.rpartition(".")[2] if path.startswith("tilelang.") else ""


def _empty(interp: Run, call: ir.Call, frame: Frame) -> Tensor:
    """The output that `T.empty(shape, dtype)` makes."""
    found = [interp.eval(part, frame) for part in call.args[:2]]
    sides = found[0] if found and isinstance(found[0], (tuple, list)) else None
    shape = None if sides is None else tuple(side if isinstance(side, int) else None for side in sides)
    return recording.make(interp, shape, dtype_of(found[1]) if len(found) > 1 else "f32", "empty")


def dtype_of(value: object) -> str:
    """The name of the element type that a value is or names."""
    if isinstance(value, DType):
        return value.name
    return (dtypes.from_tilelang(value) if isinstance(value, str) else None) or "?"
