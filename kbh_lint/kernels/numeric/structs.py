"""Overloads, operators, conversions and constructors that the text of a kernel defines itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir, values
from kbh_lint.base.values import UNKNOWN
from kbh_lint.cpp import overloads
from kbh_lint.kernels.numeric import ctypes
from kbh_lint.kernels.numeric.state import CType, Frame, Obj, Reference, VarRef

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine


class Structs:
    """Functions, operators and structs of the submission."""

    def __init__(self, m: Machine) -> None:
        self.m = m

    def methods(
        self, kind: CType, name: str, depth: int = 0, seen: set[Any] | None = None
    ) -> list[values.Func]:  # fmt: skip
        """The functions of a struct with this name, else those of its bases. `seen` are structs that were looked at."""
        if kind.kind != "struct" or depth > ctypes.MAX_DEPTH or not isinstance(kind.struct.node, ir.ClassDef):
            return []
        seen = set() if seen is None else seen
        key = self.m.types.key(kind)
        if key is not None and key in seen:
            return []
        seen.add(key)
        own = [s for s in kind.struct.node.body if isinstance(s, ir.FuncDef) and s.name == name and s.body is not None]
        if own:
            return [values.Func(func, kind.struct.env) for func in own]
        return [func for base in self.m.types.bases(kind) for func in self.methods(base, name, depth + 1, seen)]

    def chosen_of(
        self,
        funcs: list[values.Func],
        args: list[Any],
        targs: tuple[Any, ...],
        frame: Frame,
        outer: dict[str, Any] | None = None,
    ) -> overloads.Choice | None:
        """The function that a call means. `outer` are the template arguments of the class that they are methods of."""
        types = self.m.types
        return overloads.choose(types, funcs, [types.type_of(arg) for arg in args], targs, frame, outer or {})

    def takes(self, funcs: list[values.Func], args: list[Any], targs: tuple[Any, ...], frame: Frame) -> bool:
        """Whether a call can mean one of these functions."""
        types = self.m.types
        return overloads.takes(types, funcs, [types.type_of(arg) for arg in args], targs, frame)

    def operator(self, name: str, args: list[Any], node: object, frame: Frame) -> Any:
        """A submission's own operator on its structs; None when there is none for these values."""
        first = args[0]
        if isinstance(first, Obj):
            found = [f for f in self.methods(first.type, name) if overloads.arity(f.node, len(args) - 1)]
            if found:
                bound = dict(first.type.args)
                fitting = self.chosen_of(found, args[1:], (), frame, bound)
                func = found[0] if fitting is None else fitting.func
                bound.update({} if fitting is None else fitting.bound)
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
        """A struct as the number that its conversion operator makes of it (to `wanted` if it can); None without one."""
        if not isinstance(value, Obj) or value.type.kind != "struct":
            return None
        found = {
            _named_type(value.type, s.name.removeprefix("operator ")): s
            for s in value.type.struct.node.body
            if isinstance(s, ir.FuncDef) and s.name.startswith("operator ") and s.body is not None
        }
        numeric = {
            dt: s for dt, s in found.items() if dt in dtypes.FLOATS or wanted in dtypes.INTS and dt in dtypes.INTS
        }
        if not numeric:
            return None
        func, env = numeric.get(wanted) or next(iter(numeric.values())), value.type.struct.env
        frame, bound = Frame([{}], env, True, 0), dict(value.type.args)
        return self.m.calls.inline(func, env, [], {}, func, frame, this=value, bound=bound)

    def makers(self, kind: CType, count: int) -> list[values.Func]:
        """The constructors of a struct that take so many arguments."""
        node, env = kind.struct.node, kind.struct.env
        named_so = [s for s in node.body if isinstance(s, ir.FuncDef) and s.name == node.name and s.body is not None]
        return [values.Func(maker, env) for maker in named_so if overloads.arity(maker, count)]

    def construct(self, kind: CType, args: list[Any], node: object, frame: Frame, *, braces: bool = False) -> Any:
        """`T(a, b)`, `T{a, b}`, `T x(a, b)`: by a constructor, field by field, or as a conversion."""
        if kind.kind == "struct" and isinstance(kind.struct.node, ir.ClassDef):
            if len(args) == 1 and isinstance(args[0], Obj) and args[0].type.struct is kind.struct:
                return args[0].copy()
            made = self.m.ctypes.zero(kind)
            funcs = self.makers(kind, len(args))
            chosen = self.chosen_of(funcs, args, (), frame, kind.args)
            if chosen is not None and isinstance(made, Obj):
                bound = {**kind.args, **chosen.bound}
                self.m.calls.inline(chosen.func.node, kind.struct.env, args, {}, node, frame, this=made, bound=bound)
                return made
            return self.m.ctypes.aggregate(kind, args, self.m.site(frame, node)) if args or braces else made
        if kind.kind == "vec":
            return self.m.ctypes.convert(tuple(args), kind, self.m.site(frame, node))
        if not args:
            return 0 if kind.kind == "int" else self.m.ctypes.zero(kind)
        return self.m.ctypes.convert(args[0] if len(args) == 1 else tuple(args), kind, self.m.site(frame, node))


def _named_type(owner: CType, name: str) -> str | None:
    """The element type of a name in a struct: a built-in one, or what a template parameter is bound to."""
    bound = owner.args.get(name)
    return bound.dt if isinstance(bound, CType) else dtypes.from_cpp(name)
