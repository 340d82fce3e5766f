"""Types of an analysed kernel as the rules of C++ see them: for overloads, template arguments and specialisations."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kbh_lint.base import dtypes, ir, values
from kbh_lint.cpp.classes import Classes
from kbh_lint.cpp.domain import Type
from kbh_lint.cpp.members import outer_arguments
from kbh_lint.kernels.core.frames import Frame
from kbh_lint.kernels.core.value import LITERAL, NO_NAMES, NOTHING, CType, V

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.cuda.run import CudaRun

MAX_DEPTH = 8


class Scope(NamedTuple):
    """Variables, and the file's scope around them."""

    env: dict[str, V]
    outer: values.Env


class Types:
    """The types of one analysis, a `kbh_lint.cpp.domain.Domain`. Template parameters are bound to values: a type is
    `V(const=CType)`."""

    def __init__(self, run: CudaRun) -> None:
        self.m = run
        self.classes = Classes(self)

    def here(self) -> Scope:
        """The scope of the code that runs."""
        return Scope(self.m.frame.env, self.m.frame.outer)

    def scope(self, env: values.Env, bound: Mapping[str, V]) -> Scope:
        """Template parameters as variables; a lambda sees those of the function around it, too."""
        around = env.vars.get("")
        return Scope({**around.env, **bound} if isinstance(around, Frame) else dict(bound), env)

    def argument(self, node: ir.Expr, kind: str, scope: Scope) -> V | None:
        """A type or a constant; an unknown one is a value without either."""
        if kind == "template" and isinstance(node, ir.TypeRef):
            held = scope.env.get(node.name) or scope.outer.get(node.name)
            whole = V(const=CType(name=node.name, decl=held)) if isinstance(held, values.CppType) else held
            return whole if isinstance(whole, V) else None
        with self.m.types.inside(scope):
            return self.m.types.template_value(node, kind)

    def named(self, ref: ir.TypeRef, scope: Scope) -> V | None:
        """The type that is written."""
        with self.m.types.inside(scope):
            return V(const=self.m.types.resolve_type(ref))

    def key(self, value: object, depth: int = 0) -> Hashable | None:
        """What it is compared by."""
        value = self.seen(value)
        ct = value.const
        if ct is NOTHING:
            return None
        self.m.facts.decide(value)
        if isinstance(ct, bool | int | float | str):
            return int(ct) if isinstance(ct, bool) else ct
        if isinstance(ct, values.Sym):
            return ct.path.rpartition("::")[2]
        if not isinstance(ct, CType) or depth > MAX_DEPTH:
            return None
        pointers = ct.pointers + ct.dims
        if ct.decl is not None:
            bound = (*(arg for _, arg in ct.args), *outer_arguments(ct.decl))
            args = tuple(self.key(arg, depth + 1) for arg in bound)
            return None if None in args else Type(id(ct.decl.node), 1, pointers, args)
        if ct.dtype in dtypes.BITS:
            return Type(ct.dtype, ct.lanes, pointers)
        name = ct.name.rpartition("::")[2]
        return Type(name or "?", 1, pointers) if name not in ("", "auto", "decltype") or pointers else None

    def type_of(self, value: V) -> V | None:
        """The type of an argument of a call."""
        ct = value.ct
        if ct is None:
            if value.dtype == LITERAL:
                number = value.const
                kind = "bool" if isinstance(number, bool) else "i32" if isinstance(number, int) else "f32"
                return V(const=CType(kind)) if isinstance(number, int | float) else None
            return V(const=CType(value.dtype)) if value.dtype in dtypes.BITS and not value.cells else None
        return V(const=replace(ct, role="") if ct.decl is not None and ct.role else ct)

    def pointed(self, kind: V, levels: int) -> V:
        """What so many pointers lead to."""
        ct = kind.const
        for _ in range(levels if isinstance(ct, CType) else 0):
            if ct.dims:
                ct = replace(ct, dims=ct.dims - 1, sizes=ct.sizes[1:])
            else:
                ct = replace(ct, pointers=max(ct.pointers - 1, 0))
        return kind.with_(const=ct)

    def extents(self, kind: V) -> tuple[int | None, ...]:
        """The sizes of an array."""
        return kind.const.sizes if isinstance(kind.const, CType) else ()

    def inside(self, kind: V) -> tuple[str, tuple[V, ...]]:
        """The class template of a struct."""
        return self.classes.template(kind)

    def definition(self, kind: V) -> tuple[values.CppType, Mapping[str, V]] | None:
        """The class that a type is, or points to."""
        ct = kind.const
        return (ct.decl, dict(ct.args)) if isinstance(ct, CType) and ct.decl is not None else None

    def made(self, kind: values.CppType, args: Mapping[str, object]) -> V:
        """The type that a class template is with these arguments, or a class without any."""
        given = tuple([(name, self.seen(value)) for name, value in args.items()])
        return V(const=CType(name=kind.node.name, decl=kind, args=given))

    def lookup(self, name: str, scope: Scope) -> values.CppType | V | None:
        """A name of a scope, or of the text."""
        frame = self.m.frame  # as in `CudaTypes.inside`, of which most calls would be made here
        saved, outer = frame.env, frame.outer
        frame.env, frame.outer = scope
        try:
            return self.m.types.declaration(name)
        finally:
            frame.env, frame.outer = saved, outer

    def seen(self, value: object) -> V:
        """A template argument, also of a class that the host made."""
        return value if isinstance(value, V) else self.m.types.argument_value(value, "").with_(deps=NO_NAMES)

    def same(self, value: object, depth: int = 0) -> Hashable | None:
        """All that is known of it, and by what."""
        held = self.seen(value)
        if isinstance(held.x, tuple):
            return tuple([self.same(part, depth + 1) for part in held.x])
        ct, more = held.const, tuple(sorted(held.deps))
        if ct is NOTHING or depth > MAX_DEPTH:
            return None
        if not isinstance(ct, CType):
            plain = ct is None or isinstance(ct, bool | int | float | str)
            return type(ct), ct if plain else id(ct), held.dtype, more
        args = tuple([(name, self.same(arg, depth + 1)) for name, arg in ct.args])
        if any(part is None for _, part in args):
            return None
        return ct.dtype, ct.lanes, ct.pointers, ct.dims, ct.name, ct.role, id(ct.decl), args, more

    def spend(self, steps: int) -> None:
        """Of the run's fuel."""
        self.m.step(steps)

    def pack(self, values_: list[V]) -> V:
        """A pack is a tuple of values."""
        return V(x=tuple(values_))

    def unsure(self, what: str, loc: ir.Loc) -> None:
        """It is noted as something that was not read."""
        self.m.facts.unread(what, loc)
