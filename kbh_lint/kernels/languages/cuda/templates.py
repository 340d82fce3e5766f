"""Types of an analysed kernel as the rules of C++ see them: for overloads, template arguments and specialisations."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kbh_lint.base import dtypes, ir, values
from kbh_lint.cpp.classes import Classes
from kbh_lint.cpp.domain import Type, packed
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
        """The scope of the code that is being executed."""
        return Scope(self.m.frame.env, self.m.frame.outer)

    def scope(self, env: values.Env, bound: Mapping[str, V]) -> Scope:
        """A scope in which the template parameters are variables; for a lambda it is inside that of the function around
        it."""
        around = env.vars.get("")
        return Scope({**around.env, **bound} if isinstance(around, Frame) else dict(bound), env)

    def argument(self, node: ir.Expr, kind: str, scope: Scope) -> V | None:
        """The type or constant that a template argument stands for; a value with neither where that is unknown."""
        if kind == "template" and isinstance(node, ir.TypeRef):
            held = scope.env.get(node.name) or scope.outer.get(node.name)
            whole = V(const=CType(name=node.name, decl=held)) if isinstance(held, values.CppType) else held
            return whole if isinstance(whole, V) else None
        with self.m.types.inside(scope):
            return self.m.types.template_value(node, kind)

    def named(self, ref: ir.TypeRef, scope: Scope) -> V | None:
        """The type that `ref` names in a scope."""
        with self.m.types.inside(scope):
            return V(const=self.m.types.resolve_type(ref))

    def key(self, value: object, depth: int = 0) -> Hashable | None:
        """The key by which a template argument is compared; None where it is unknown. Records the arguments of the
        launch that decided it."""
        value = self.seen(value)
        ct = value.const
        if ct is NOTHING:
            return packed(self.key(part, depth + 1) for part in value.x) if isinstance(value.x, tuple) else None
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
        """The type of an argument of a call; None where unknown."""
        ct = value.ct
        if ct is None:
            if value.dtype == LITERAL:
                number = value.const
                kind = "bool" if isinstance(number, bool) else "i32" if isinstance(number, int) else "f32"
                return V(const=CType(kind)) if isinstance(number, int | float) else None
            return V(const=CType(value.dtype)) if value.dtype in dtypes.BITS and not value.cells else None
        return V(const=replace(ct, role="") if ct.decl is not None and ct.role else ct)

    def pointed(self, kind: V, levels: int) -> V:
        """The type of what `levels` dereferences of a pointer of type `kind` lead to."""
        ct = kind.const
        for _ in range(levels if isinstance(ct, CType) else 0):
            if ct.dims:
                ct = replace(ct, dims=ct.dims - 1, sizes=ct.sizes[1:])
            else:
                ct = replace(ct, pointers=max(ct.pointers - 1, 0))
        return kind.with_(const=ct)

    def extents(self, kind: V) -> tuple[int | None, ...]:
        """The sizes of the dimensions of an array type."""
        return kind.const.sizes if isinstance(kind.const, CType) else ()

    def class_template(self, kind: V) -> tuple[str, tuple[V, ...]]:
        """The class template that a struct is an instance of, by name, with its arguments."""
        return self.classes.template(kind)

    def definition(self, kind: V) -> tuple[values.CppType, Mapping[str, V]] | None:
        """The class that a type is or points to, with its bound template parameters; None for other types."""
        ct = kind.const
        return (ct.decl, dict(ct.args)) if isinstance(ct, CType) and ct.decl is not None else None

    def made(self, kind: values.CppType, args: Mapping[str, object]) -> V:
        """The type of the class `kind` with these template arguments."""
        given = tuple([(name, self.seen(value)) for name, value in args.items()])
        return V(const=CType(name=kind.node.name, decl=kind, args=given))

    def lookup(self, name: str, scope: Scope) -> values.CppType | V | None:
        """The class, alias or type that a name is bound to in a scope; None for other names."""
        frame = self.m.frame  # as in `CudaTypes.inside`, of which most calls would be made here
        saved, outer = frame.env, frame.outer
        frame.env, frame.outer = scope
        try:
            return self.m.types.declaration(name)
        finally:
            frame.env, frame.outer = saved, outer

    def seen(self, value: object) -> V:
        """A template argument as a value of the analysis, also one of a class that the host made."""
        return value if isinstance(value, V) else self.m.types.argument_value(value, "").with_(deps=NO_NAMES)

    def same(self, value: object, depth: int = 0) -> Hashable | None:
        """A key that is the same only for template arguments that are identical and depend on the same arguments of the
        launch; None where unknown."""
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
        """Spends steps of the run."""
        self.m.step(steps)

    def pack(self, values_: list[V]) -> V:
        """The value of a template parameter pack: a tuple."""
        return V(x=tuple(values_))

    def unpacked(self, value: V) -> tuple[V, ...] | None:
        """The arguments that a parameter pack is bound to; None for what is bound to another parameter."""
        return value.x if isinstance(value.x, tuple) and value.const is NOTHING else None

    def held(self, name: str, scope: Scope) -> V | None:
        """What the template parameter `name` is bound to in a scope; None for other names."""
        found = scope.env.get(name) or scope.outer.get(name)
        return found if isinstance(found, V) else None

    def unsure(self, what: str, loc: ir.Loc) -> None:
        """Records that something could not be decided."""
        self.m.facts.unread(what, loc)
