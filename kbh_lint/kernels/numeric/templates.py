"""Types of an evaluated kernel as the rules of C++ see them: for overloads, template arguments and specialisations."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import UNKNOWN, Env, TypeValue
from kbh_lint.cpp.domain import Type
from kbh_lint.kernels.numeric import integers as whole
from kbh_lint.kernels.numeric.numbers import Num
from kbh_lint.kernels.numeric.state import OTHER, CType, Frame, Obj, Ptr, Reference, VarRef

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine

MAX_DEPTH = 8


class Types:
    """The types of one run, a `kbh_lint.cpp.domain.Domain`. Template parameters are bound to `CType`s and numbers."""

    def __init__(self, m: Machine) -> None:
        self.m = m

    def scope(self, env: Env, bound: Mapping[str, Any]) -> Frame:
        """A frame in which the template parameters are variables."""
        return Frame([dict(bound)], env, True, 0)

    def argument(self, node: ir.Expr, kind: str, scope: Frame) -> Any:
        """A type or a constant."""
        if isinstance(node, ir.Name) and kind == "type":
            node = ir.TypeRef(node.id, (), node.loc)
        value: Any = OTHER
        if isinstance(node, ir.TypeRef) and kind != "value":
            value = self.m.ctypes.resolve(node, scope)
        if value is OTHER:
            value = self.m.expressions.evaluate(node, scope)
        return None if value is UNKNOWN else value

    def named(self, ref: ir.TypeRef, scope: Frame) -> CType | None:
        """The type that is written, an array as a pointer."""
        kind = self.m.ctypes.resolve(ref, scope)
        for _ in ref.dims:
            kind = CType("pointer", inner=kind)
        return None if kind is OTHER else kind

    def key(self, value: object, depth: int = 0) -> Hashable | None:
        """What it is compared by."""
        if isinstance(value, Num):
            return value.f
        if isinstance(value, int | float | str):
            return int(value) if isinstance(value, int) else value
        if isinstance(value, TypeValue):
            return Type(value.ref.name.rpartition("::")[2], 1, value.ref.pointers) if not value.ref.args else None
        if not isinstance(value, CType) or depth > MAX_DEPTH:
            return None
        if value.kind == "pointer":
            inner = Type("?") if value.inner is None else self.key(value.inner, depth + 1) or Type("?")
            return Type(inner.base, inner.lanes, inner.pointers + 1, inner.args) if isinstance(inner, Type) else None
        if value.kind == "struct":
            args = tuple(self.key(arg, depth + 1) for arg in value.args.values())
            return None if None in args else Type(id(value.struct.node), args=args)
        return Type(value.dt, value.lanes) if value.dt in dtypes.BITS else None

    def type_of(self, value: object) -> CType | None:
        """The type of an argument of a call."""
        if isinstance(value, Reference):
            held = value.place
            inner = self.type_of(held.table.get(held.name)) if isinstance(held, VarRef) else _of_pointer(held)
            return CType("pointer", inner=inner) if value.address and inner is not None else inner
        if isinstance(value, Num):
            return CType("float", "f32" if value.dt == "lit" else value.dt)
        if isinstance(value, bool):
            return CType("bool", "bool")
        if isinstance(value, int):
            return CType("int", whole.type_of(value))
        if isinstance(value, Ptr):
            kind = _of_pointer(value)
            return None if kind is None else CType("pointer", inner=kind)
        return value.type if isinstance(value, Obj) and value.type is not OTHER else None

    def pointed(self, kind: CType, levels: int) -> CType:
        """What so many pointers lead to."""
        for _ in range(levels):
            kind = kind.inner or OTHER
        return kind

    def inside(self, kind: object) -> tuple[str, tuple[Any, ...]]:
        """The class template of a struct."""
        if not isinstance(kind, CType) or kind.kind != "struct" or not isinstance(kind.struct.node, ir.ClassDef):
            return "", ()
        return kind.struct.node.name, tuple(kind.args.values())

    def bases(self, kind: object) -> Iterable[CType]:
        """The classes that a struct is derived from."""
        if not isinstance(kind, CType) or kind.kind != "struct" or not isinstance(kind.struct.node, ir.ClassDef):
            return ()
        frame = self.scope(kind.struct.env, kind.args)
        refs = [base for base in kind.struct.node.bases if isinstance(base, ir.TypeRef)]
        return [found for found in (self.m.ctypes.resolve(ref, frame) for ref in refs) if found.kind == "struct"]

    def pack(self, values: list[Any]) -> Any:
        """A pack is a tuple."""
        return tuple(values)

    def unsure(self, what: str, loc: ir.Loc) -> None:
        """It is noted as something that was not read."""
        if len(self.m.unread) < 64:
            self.m.unread.setdefault((what, 0), loc)


def _of_pointer(value: object) -> CType | None:
    return value.type if isinstance(value, Ptr) and value.type is not OTHER else None
