"""Which C++ function a call means, of those of one name."""

from __future__ import annotations

from typing import Any

from kbh_lint import dtypes, ir
from kbh_lint.host import cpp_types
from kbh_lint.host.values.objects import Pointer, Slot
from kbh_lint.host.values.tensors import Tensor
from kbh_lint.values import Env, Func, Overloads


def choose(run: Any, overloads: Overloads, args: list[Any], given: tuple[ir.Expr, ...], env: Env | None) -> Func:
    """The overload with a body whose parameters fit the arguments best, or the specialisation for the template
    arguments that are `given`."""
    bodies = [f for f in overloads.funcs if f.node.body is not None] or overloads.funcs
    if len(bodies) == 1:
        return bodies[0]
    if given and env is not None:
        wanted = [cpp_types.spelled(run, arg, env) for arg in given]
        for func in bodies:
            special = func.node.specialization
            if special and [cpp_types.spelled(run, arg, func.env) for arg in special] == wanted:
                return func
        bodies = [f for f in bodies if not f.node.specialization] or bodies
    fitting = [f for f in bodies if takes(f.node, len(args))]
    return max(fitting, key=lambda func: _likeness(func.node, args)) if fitting else bodies[-1]  # of equals the first


def in_order(target: Any, count: int, kwargs: dict[str, Any]) -> list[Any]:
    """Keyword arguments after `count` others in the order of a function's parameters, where it has them all."""
    names = [p.name for p in target.funcs[-1].node.params][count:] if kwargs and isinstance(target, Overloads) else []
    if set(names[: len(kwargs)]) == set(kwargs):
        return [kwargs[name] for name in names[: len(kwargs)]]
    return list(kwargs.values())


def takes(func: ir.FuncDef, count: int) -> bool:
    """Whether a function can be called with so many arguments."""
    need = sum(1 for p in func.params if p.default is None and p.kind != "star")
    return need <= count and (any(p.kind == "star" for p in func.params) or count <= len(func.params))


def _likeness(func: ir.FuncDef, args: list[Any]) -> int:
    """How well the types of a function's parameters fit its arguments."""
    total = 0
    for param, arg in zip(func.params, args, strict=False):
        if not isinstance(param.type, ir.TypeRef):
            continue
        value = arg.get() if isinstance(arg, Slot) else arg
        wanted, pointed = dtypes.from_cpp(param.type.name), bool(param.type.pointers)
        is_tensor = param.type.name.rpartition("::")[2] == "Tensor"
        if isinstance(value, Pointer):
            total += 2 * (wanted == value.dtype) + 1 if pointed else -2
        elif isinstance(value, Tensor):
            total += 2 if is_tensor else -2 if wanted or pointed else 0
        elif isinstance(value, (int, float)) and not isinstance(arg, Slot):
            kinds = dtypes.FLOATS if isinstance(value, float) else dtypes.INTS
            total += -2 if pointed or is_tensor else 2 if wanted in kinds else 1 if wanted else 0
    return total
