"""Types of an evaluated kernel as the rules of C++ see them: for overloads, template arguments and specialisations."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import UNKNOWN, CppType, DType, Env, TypeValue, Value
from kbh_lint.cpp.classes import Classes
from kbh_lint.cpp.domain import Type, packed
from kbh_lint.cpp.members import outer_arguments
from kbh_lint.kernels.numeric import integers as whole
from kbh_lint.kernels.numeric.ctypes import ROW
from kbh_lint.kernels.numeric.numbers import Num
from kbh_lint.kernels.numeric.state import OTHER, CType, Frame, Obj, Ptr, Reference, VarRef

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine

MAX_DEPTH = 8


class Types:
    """The types of one run, a `kbh_lint.cpp.domain.Domain`. Template parameters are bound to `CType`s and numbers."""

    def __init__(self, m: Machine) -> None:
        self.m = m
        self.classes = Classes(self)

    def scope(self, env: Env, bound: Mapping[str, Value]) -> Frame:
        """A frame in which the template parameters are variables."""
        return Frame([dict(bound)], env, True, 0)

    def argument(self, node: ir.Expr, kind: str, scope: Frame) -> Any:
        """The type or constant that a template argument stands for; None where unknown."""
        value: Any = OTHER
        if isinstance(node, ir.TypeRef) and kind == "template":
            held = scope.find(node.name)
            return scope.env.get(node.name) if held is None else held[node.name]
        if isinstance(node, ir.TypeRef) and kind != "value":
            value = self.m.ctypes.resolve(node, scope)
        if value is OTHER:
            value = self.m.expressions.evaluate(node, scope)
        return None if value is UNKNOWN else value

    def named(self, ref: ir.TypeRef, scope: Frame) -> CType | None:
        """The type that `ref` names; an array counts as a pointer. None where unknown."""
        kind = self.m.ctypes.resolve(ref, scope)
        counts = [self.argument(dim, "value", scope) for dim in ref.dims] if kind is not OTHER else []
        sizes = tuple(count if isinstance(count, int) else ROW for count in counts)
        for at in range(len(ref.dims)):
            kind = CType("pointer", inner=kind, sizes=sizes[len(sizes) - 1 - at :])
        return None if kind is OTHER else kind

    def key(self, value: object, depth: int = 0) -> Hashable | None:
        """The key by which a template argument is compared; None where it is unknown."""
        if isinstance(value, Num):
            return value.f
        if isinstance(value, tuple):
            return packed(self.key(part, depth + 1) for part in value)
        if isinstance(value, int | float | str):
            return int(value) if isinstance(value, int) else value
        if isinstance(value, DType):
            return Type(value.name)
        if isinstance(value, CppType):  # a class template
            return Type(id(value.node))
        if isinstance(value, TypeValue):
            return self._unresolved(value, depth)
        if not isinstance(value, CType) or depth > MAX_DEPTH:
            return None
        if value.kind == "pointer":
            inner = Type("?") if value.inner is None else self.key(value.inner, depth + 1) or Type("?")
            return Type(inner.base, inner.lanes, inner.pointers + 1, inner.args) if isinstance(inner, Type) else None
        if value.kind == "struct":
            bound = (*value.args.values(), *outer_arguments(value.struct))
            args = tuple(self.key(arg, depth + 1) for arg in bound)
            return None if None in args else Type(id(value.struct.node), args=args)
        return Type(value.dt, value.lanes) if value.dt in dtypes.BITS else None

    def _unresolved(self, value: TypeValue, depth: int) -> Type | None:
        """The key of a type that could not be resolved: the name of one that the text does not define; None of a
        parameter that is bound to nothing known, and of what only an expression tells."""
        ref, held = value.ref, value.env.get(value.ref.name)
        if ref.args or ref.member or ref.name in ("", "auto", "decltype") or depth > MAX_DEPTH:
            return None
        if isinstance(held, TypeValue):
            inner = self._unresolved(held, depth + 1)
            return None if inner is None else Type(inner.base, inner.lanes, inner.pointers + ref.pointers)
        return None if held is OTHER else Type(ref.name.rpartition("::")[2], 1, ref.pointers)

    def type_of(self, value: object) -> CType | None:
        """The type of an argument of a call; None where unknown."""
        if isinstance(value, Reference):
            held = value.place
            row = isinstance(held, Ptr) and bool(held.rest)  # of an array of arrays
            found = held.table.get(held.name) if isinstance(held, VarRef) else held
            inner = self.type_of(found) if row or isinstance(held, VarRef) else _of_pointer(held)
            return CType("pointer", inner=inner) if value.address and inner is not None else inner
        if isinstance(value, Num):
            return CType("float", "f32" if value.dt == "lit" else value.dt)
        if isinstance(value, bool):
            return CType("bool", "bool")
        if isinstance(value, int):
            return CType("int", whole.type_of(value))
        if isinstance(value, Ptr):
            kind, sizes = _of_pointer(value), value.rest or (ROW,)
            for at in range(len(sizes) if kind is not None else 0):
                kind = CType("pointer", inner=kind, sizes=sizes[len(sizes) - 1 - at :] if value.rest else ())
            return kind
        return value.type if isinstance(value, Obj) and value.type is not OTHER else None

    def pointed(self, kind: CType, levels: int) -> CType:
        """The type of what `levels` dereferences of a pointer of type `kind` lead to."""
        for _ in range(levels):
            kind = kind.inner or OTHER
        return kind

    def extents(self, kind: CType) -> tuple[int | None, ...]:
        """The sizes of the dimensions of an array, None for an unknown one."""
        return tuple(None if size == ROW else size for size in kind.sizes)

    def class_template(self, kind: object) -> tuple[str, tuple[Any, ...]]:
        """The class template that a struct is an instance of, by name, with its arguments."""
        return self.classes.template(kind)

    def definition(self, kind: object) -> tuple[CppType, Mapping[str, Any]] | None:
        """The class of a struct type, with its bound template parameters; None for other types."""
        return (kind.struct, kind.args) if isinstance(kind, CType) and kind.kind == "struct" else None

    def made(self, kind: CppType, args: dict[str, Any]) -> CType:
        """The struct type of the class `kind` with these template arguments."""
        return CType("struct", struct=kind, args=args)

    def lookup(self, name: str, scope: Frame) -> CppType | CType | None:
        """The class, alias or type that a name is bound to in a scope; None for other names."""
        held = scope.find(name)
        try:
            value = scope.env.lookup(name) if held is None else held[name]
        except KeyError:
            return None
        if isinstance(value, CppType):
            return value
        kind = self.m.ctypes.of_value(value) if isinstance(value, CType | TypeValue | DType) else OTHER
        return None if kind is OTHER else kind

    def same(self, value: object) -> Hashable | None:
        """A key that is the same for identical template arguments only: of numbers it includes the type, of types that
        the text does not define the whole name. None where unknown."""
        if isinstance(value, tuple):
            parts = tuple([self.same(part) for part in value])
            return None if None in parts else parts
        if isinstance(value, int):
            return int(value), whole.type_of(value)
        if isinstance(value, TypeValue):
            return None if value.ref.args or value.ref.member else (value.ref.name, value.ref.pointers)
        return self.key(value)

    def spend(self, steps: int) -> None:
        """Spends steps of the machine."""
        self.m.fuel -= steps - 1
        self.m.spend()

    def pack(self, values: Sequence[Value]) -> Value:
        """The value of a template parameter pack: a tuple."""
        return tuple(values)

    def unpacked(self, value: object) -> tuple[object, ...] | None:
        """The arguments that a parameter pack is bound to; None for what is bound to another parameter."""
        return value if isinstance(value, tuple) else None

    def held(self, name: str, scope: Frame) -> Value:
        """What the template parameter `name` is bound to in a scope."""
        inside = scope.find(name)
        return scope.env.get(name) if inside is None else inside[name]

    def unsure(self, what: str, loc: ir.Loc) -> None:
        """Records that something could not be decided."""
        if len(self.m.unread) < 64:
            self.m.unread.setdefault((what, 0), loc)


def _of_pointer(value: object) -> CType | None:
    return value.type if isinstance(value, Ptr) and value.type is not OTHER else None
