"""Overloads, operators, conversions and constructors that the text of a kernel defines itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir, values
from kbh_lint.base.values import UNKNOWN, Value
from kbh_lint.cpp import construction, overloads
from kbh_lint.kernels.numeric.state import CType, Frame, Obj, Reference, VarRef

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbh_lint.kernels.numeric.machine import Machine


class Structs:
    """Functions, operators and structs of the submission."""

    def __init__(self, m: Machine) -> None:
        self.m = m

    def methods(self, kind: CType, name: str) -> list[values.Func]:
        """The functions of a struct with this name that have a body, or those of its bases if it has none."""
        return [func for func in self.m.types.classes.methods(kind, name) if func.node.body is not None]

    def chosen_of(
        self,
        funcs: list[values.Func],
        args: list[Any],
        targs: tuple[Any, ...],
        frame: Frame,
    ) -> overloads.Choice | None:
        """The overload among `funcs` that a call with these arguments means; None if there is none."""
        types = self.m.types
        return overloads.choose(types, funcs, [types.type_of(arg) for arg in args], targs, frame, {})

    def takes(self, funcs: list[values.Func], args: list[Any], targs: tuple[Any, ...], frame: Frame) -> bool:
        """Whether a call with these arguments can mean one of `funcs`."""
        types = self.m.types
        return overloads.takes(types, funcs, [types.type_of(arg) for arg in args], targs, frame)

    def operator(self, name: str, args: list[Any], node: ir.Expr | ir.Stmt, frame: Frame) -> Value:
        """The result of an operator that the submission defines for its structs; None when none fits the arguments."""
        first = args[0]
        if isinstance(first, Obj):
            found = [f for f in self.methods(first.type, name) if overloads.arity(f.node, len(args) - 1)]
            if found:
                fitting = self.chosen_of(found, args[1:], (), frame)
                func = found[0] if fitting is None else fitting.func
                bound = {} if fitting is None else fitting.bound
                result = self.m.calls.inline(
                    func.node, func.env, list(args[1:]), {}, node, frame, this=first, bound=bound
                )
                return UNKNOWN if result is None else result
        try:
            free = frame.env.lookup(name)
        except KeyError:
            return None
        funcs = free.funcs if isinstance(free, values.Overloads) else [free] if isinstance(free, values.Func) else []
        chosen = self.chosen_of(funcs, args, (), frame)
        if chosen is None:
            return None
        cells = [Reference(VarRef({"v": a}, "v")) if isinstance(a, Obj) else a for a in args]
        result = self.m.calls.inline(chosen.func.node, chosen.func.env, cells, {}, node, frame, bound=chosen.bound)
        return UNKNOWN if result is None else result

    def conversion(self, value: object, wanted: str = "") -> Any:
        """The number that a conversion operator of a struct gives, of the type `wanted` if possible; None without such
        an operator."""
        if not isinstance(value, Obj) or value.type.kind != "struct":
            return None
        allowed = dtypes.FLOATS | dtypes.INTS if wanted in dtypes.INTS else dtypes.FLOATS
        operators = [one for one in self.m.types.classes.conversions(value.type) if one[0].dt in allowed]
        func = construction.converter(self.m.types, operators, wanted)
        if func is None:
            return None
        return self.m.calls.inline(func.node, func.env, [], {}, func.node, Frame([{}], func.env, True, 0), this=value)

    def way(self, kind: CType, args: Sequence[Value]) -> construction.Way:
        """How an object of type `kind` is made from these arguments."""
        types = self.m.types
        return construction.way(types, kind, types.classes.constructors(kind), [types.type_of(arg) for arg in args])

    def by_place(self, kind: CType, args: list[Any], nodes: Sequence[ir.Expr], frame: Frame) -> list[Any]:
        """`args` with references in place of values for those that initialise a reference parameter of the constructor
        or a reference field."""
        if kind.kind != "struct" or not isinstance(kind.struct.node, ir.ClassDef) or len(nodes) != len(args):
            return args
        makers = self.way(kind, args).makers
        fields = [[member.node] for member in self.m.types.classes.fields(kind)]
        taken: list[list[ir.Stmt | ir.Param]] = [list(func.node.params) for func in makers]
        wanted = {i for params in taken for i, param in enumerate(params) if _refers(param)}
        if not makers:
            wanted = {i for i, (field,) in enumerate(fields) if _refers(field)}
        elif any(_refers(field) for (field,) in fields):
            self.m.note("a reference that a constructor gives an object is not followed", kind.struct.node)
        out = list(args)
        for i in wanted:
            where = self.m.places.place(nodes[i], frame) if i < len(out) else None
            if where is not None:
                out[i] = Reference(where)
        return out

    def construct(
        self, kind: CType, args: list[Any], node: ir.Expr | ir.Stmt, frame: Frame, *, braces: bool = False
    ) -> Any:
        """The object made by `T(a, b)`, `T{a, b}` or `T x(a, b)`: by a constructor, field by field, or as a
        conversion."""
        if kind.kind == "struct" and isinstance(kind.struct.node, ir.ClassDef):
            way = self.way(kind, args)
            if way.by == "copy" and isinstance(args[0], Obj):
                return args[0].copy()
            made = self.m.ctypes.zero(kind)
            chosen = self.chosen_of(list(way.makers), args, (), frame)
            if chosen is not None and isinstance(made, Obj):
                func = chosen.func
                self.m.calls.inline(func.node, func.env, args, {}, node, frame, this=made, bound=chosen.bound)
                return made
            return self.m.ctypes.aggregate(kind, args, self.m.site(frame, node)) if args or braces else made
        if kind.kind == "vec":
            return self.m.ctypes.convert(tuple(args), kind, self.m.site(frame, node))
        if not args:
            return 0 if kind.kind == "int" else self.m.ctypes.zero(kind)
        return self.m.ctypes.convert(args[0] if len(args) == 1 else tuple(args), kind, self.m.site(frame, node))


def _refers(node: object) -> bool:
    """Whether a field or a parameter is a reference through which what it refers to may change."""
    kind = getattr(node, "type", None)
    return isinstance(kind, ir.TypeRef) and kind.reference and not kind.const
