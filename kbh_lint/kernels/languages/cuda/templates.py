"""Types of an analysed kernel as the rules of C++ see them: for overloads, template arguments and specialisations."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kbh_lint.base import dtypes, ir, values
from kbh_lint.cpp.domain import Type
from kbh_lint.kernels.core.value import LITERAL, NOTHING, CType, V

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

    def here(self) -> Scope:
        """The scope of the code that runs."""
        return Scope(self.m.frame.env, self.m.frame.outer)

    def scope(self, env: values.Env, bound: Mapping[str, V]) -> Scope:
        """Template parameters over what is visible here: local classes and aliases are variables of the function."""
        return Scope({**self.m.frame.env, **bound}, env)

    def argument(self, node: ir.Expr, kind: str, scope: Scope) -> V | None:
        """A type or a constant; an unknown one is a value without either."""
        frame = self.m.frame
        saved, outer = frame.env, frame.outer
        frame.env, frame.outer = scope
        try:
            return self.m.types.template_value(node, kind)
        finally:
            frame.env, frame.outer = saved, outer

    def named(self, ref: ir.TypeRef, scope: Scope) -> V | None:
        """The type that is written."""
        frame = self.m.frame
        saved, outer = frame.env, frame.outer
        frame.env, frame.outer = scope
        try:
            return V(const=self.m.types.resolve_type(ref))
        finally:
            frame.env, frame.outer = saved, outer

    def key(self, value: V, depth: int = 0) -> Hashable | None:
        """What it is compared by."""
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
            args = tuple(self.key(arg, depth + 1) for _, arg in ct.args if isinstance(arg, V))
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
            ct = replace(ct, dims=ct.dims - 1) if ct.dims else replace(ct, pointers=max(ct.pointers - 1, 0))
        return kind.with_(const=ct)

    def inside(self, kind: V) -> tuple[str, tuple[V, ...]]:
        """The class template of a struct."""
        ct = kind.const
        if not isinstance(ct, CType) or ct.decl is None:
            return "", ()
        return ct.decl.node.name, tuple(arg for _, arg in ct.args if isinstance(arg, V))

    def bases(self, kind: V) -> Iterable[V]:
        """The classes that a struct is derived from."""
        ct = kind.const
        if not isinstance(ct, CType) or ct.decl is None or not isinstance(ct.decl.node, ir.ClassDef):
            return []
        self.m.step()
        at = self.scope(ct.decl.env, dict(ct.args))
        found = [self.named(base, at) for base in ct.decl.node.bases if isinstance(base, ir.TypeRef)]
        return [base for base in found if base is not None]

    def pack(self, values_: list[V]) -> V:
        """A pack is a tuple of values."""
        return V(x=tuple(values_))

    def unsure(self, what: str, loc: ir.Loc) -> None:
        """It is noted as something that was not read."""
        self.m.facts.unread(what, loc)
