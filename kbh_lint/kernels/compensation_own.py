"""Overloads, operators, conversions and constructors that the text of a kernel defines itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint import dtypes, ir, values
from kbh_lint.kernels import compensation_ctypes as ctypes
from kbh_lint.kernels.compensation_numbers import Num
from kbh_lint.kernels.compensation_state import CType, Frame, Obj, Ptr, Reference, VarRef
from kbh_lint.values import UNKNOWN

if TYPE_CHECKING:
    from kbh_lint.kernels.compensation_machine import Machine


def methods(kind: CType, name: str) -> list[ir.FuncDef]:
    """The functions of a struct with this name."""
    if kind.kind != "struct":
        return []
    return [s for s in kind.struct.node.body if isinstance(s, ir.FuncDef) and s.name == name and s.body is not None]


def chosen_of(funcs: list[values.Func], args: list[Any], targs: tuple[Any, ...]) -> values.Func | None:
    """The overload whose parameters fit best."""
    best: values.Func | None = None
    best_score = -1
    for func in funcs:
        params = func.node.params
        needed = sum(1 for p in params if p.default is None and p.kind == "positional")
        if func.node.body is None or not (needed <= len(args) <= len(params)):
            continue
        score = 1 + sum(_fits(p, a, func) for p, a in zip(params, args, strict=False))
        score += 1 if len(targs) and len(func.node.template) >= len(targs) else 0
        if score > best_score:
            best, best_score = func, score
    return best


def _fits(param: ir.Param, value: Any, func: values.Func) -> int:
    ref = param.type
    if not isinstance(ref, ir.TypeRef):
        return 0
    if isinstance(value, Reference) and isinstance(value.place, VarRef):
        value = value.place.table.get(value.place.name)
    if isinstance(value, Obj):
        kind = value.type
        name = kind.struct.node.name if kind.kind == "struct" else ""
        vector = dtypes.vector_from_cpp(ref.name)
        return 2 if (name and name == ref.name) or (kind.kind == "vec" and vector == (kind.dt, kind.lanes)) else 0
    dt = dtypes.from_cpp(ref.name)
    if isinstance(value, Num):
        return 2 if dt == value.dt and not ref.pointers else 0
    if isinstance(value, int):
        return 1 if dt in dtypes.INTS and not ref.pointers else 0
    return 1 if isinstance(value, Ptr) and (ref.pointers or ref.dims) else 0


def template_arguments(m: Machine, node: ir.FuncDef, targs: tuple[Any, ...], frame: Frame) -> dict[str, Any]:
    """What the template parameters of a function are bound to: by the call, or by default."""
    bound = {p.name: ctypes.template_argument(m, a, frame) for p, a in zip(node.template, targs, strict=False)}
    for param in node.template[len(targs) :]:
        if param.default is not None:
            bound[param.name] = ctypes.template_argument(m, param.default, frame)
    return bound


def operator(m: Machine, name: str, args: list[Any], node: Any, frame: Frame) -> Any:
    """A submission's own operator on its structs; None when there is none for these values."""
    first = args[0]
    if isinstance(first, Obj):
        found = [f for f in methods(first.type, name) if len(f.params) == len(args) - 1]
        if found:
            env = first.type.struct.env
            bound = dict(first.type.args)
            fitting = chosen_of([values.Func(f, env) for f in found], args[1:], ())
            func = found[0] if fitting is None else fitting.node
            result = m.call(func, env, list(args[1:]), {}, node, frame, this=first, bound=bound)
            return UNKNOWN if result is None else result
    try:
        free = frame.env.lookup(name)
    except KeyError:
        return None
    funcs = free.funcs if isinstance(free, values.Overloads) else [free] if isinstance(free, values.Func) else []
    chosen = chosen_of(funcs, args, ())
    if chosen is None:
        return None
    cells = [Reference(VarRef({"v": a}, "v")) if isinstance(a, Obj) else a for a in args]
    result = m.call(chosen.node, chosen.env, cells, {}, node, frame)
    return UNKNOWN if result is None else result


def _named_type(owner: CType, name: str) -> str | None:
    """The element type of a name in a struct: a built-in one, or what a template parameter is bound to."""
    bound = owner.args.get(name)
    return bound.dt if isinstance(bound, CType) else dtypes.from_cpp(name)


def conversion(m: Machine, value: Any, wanted: str = "") -> Any:
    """A struct as the number that its conversion operator makes of it (to `wanted` if it can); None without one."""
    if not isinstance(value, Obj) or value.type.kind != "struct":
        return None
    found = {
        _named_type(value.type, s.name.removeprefix("operator ")): s
        for s in value.type.struct.node.body
        if isinstance(s, ir.FuncDef) and s.name.startswith("operator ") and s.body is not None
    }
    numeric = {dt: s for dt, s in found.items() if dt in dtypes.FLOATS}
    if not numeric:
        return None
    func, env = numeric.get(wanted) or next(iter(numeric.values())), value.type.struct.env
    return m.call(func, env, [], {}, func, Frame([{}], env, True, 0), this=value, bound=dict(value.type.args))


def construct(m: Machine, kind: CType, args: list[Any], node: Any, frame: Frame) -> Any:
    """`T(a, b)`, `T{a, b}`, `T x(a, b)`: by a constructor, field by field, or as a conversion."""
    if kind.kind == "struct" and isinstance(kind.struct.node, ir.ClassDef):
        if len(args) == 1 and isinstance(args[0], Obj) and args[0].type.struct is kind.struct:
            return args[0].copy()
        made = ctypes.zero(m, kind)
        makers = methods(kind, kind.struct.node.name)
        funcs = [values.Func(f, kind.struct.env) for f in makers]
        chosen = chosen_of(funcs, args, ())
        if chosen is not None and isinstance(made, Obj):
            m.call(chosen.node, kind.struct.env, args, {}, node, frame, this=made, bound=dict(kind.args))
            return made
        return ctypes.aggregate(m, kind, args, m.site(frame, node)) if args else made
    if kind.kind == "vec":
        return ctypes.convert(m, tuple(args), kind, m.site(frame, node))
    if not args:
        return 0 if kind.kind == "int" else ctypes.zero(m, kind)
    return ctypes.convert(m, args[0] if len(args) == 1 else tuple(args), kind, m.site(frame, node))
