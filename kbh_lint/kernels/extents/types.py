"""Types and constants of C++ in a kernel whose addresses are followed: element types of aliases, numbers of classes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import UNKNOWN, CppType, DType, Env, TypeValue
from kbh_lint.cpp import constants, integers, layout, templates, traits
from kbh_lint.cpp.classes import Classes
from kbh_lint.cpp.domain import Type, packed
from kbh_lint.cpp.members import Member, outer_arguments
from kbh_lint.kernels.extents.intervals import Linear
from kbh_lint.kernels.extents.values import Field, Laid

if TYPE_CHECKING:
    from kbh_lint.kernels.extents.follow import Follow

MAX_DEPTH = 12
MAX_NESTED = 4  # structs in one another
_LANES = "xyzw"


class NotKnown(Exception):
    """Raised where an unknown template argument decides which specialisation is meant."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type: an element type or the name of one that the text does not define, or a class with its arguments."""

    base: str = ""
    lanes: int = 1
    pointers: int = 0
    decl: CppType | None = None
    args: tuple[tuple[str, Any], ...] = ()


class Types:
    """The types of one walk, a `kbh_lint.cpp.domain.Domain`. Template parameters are bound to `Kind`s and numbers."""

    def __init__(self, run: Follow, args: Mapping[str, Any]) -> None:
        self.run = run
        self.classes = Classes(self)
        self.layouts: dict[Kind, Laid | None] = {}
        self.lost = False  # something was asked that cannot be known
        kernel = run.frame.kernel
        typed = {name: value for name, value in args.items() if isinstance(value, (TypeValue, DType))}
        self.here = Env(typed, kernel.env)  # what names of types mean in the kernel's body

    # --- what the walk asks --------

    def number(self, node: ir.Expr) -> int | None:
        """The integer that a constant expression in the kernel's body has; None for others."""
        value = self._asked(lambda: self.value(node, self.here))
        return int(value) if isinstance(value, int) else None

    def element(self, ref: ir.TypeRef) -> str | None:
        """The element type that a type in the source names; None for pointers, vectors, classes and unknown types."""
        kind = self._asked(lambda: self.named(replace(ref, dims=()), self.here))
        return kind.base if isinstance(kind, Kind) and kind == Kind(kind.base) and kind.base in dtypes.BITS else None

    def laid(self, ref: ir.TypeRef) -> Laid | None:
        """The memory layout of a struct or vector type in the source; None for other types."""
        kind = self._asked(lambda: self.named(ref, self.here))
        if not isinstance(kind, Kind):
            return None
        if kind not in self.layouts:
            found = self._asked(lambda: _laid(self, kind))
            self.layouts[kind] = found if isinstance(found, Laid) else None
        return self.layouts[kind]

    def declare(self, node: ir.Using | ir.ClassDef) -> None:
        """Declares a class or a type alias inside the kernel."""
        held = None
        if isinstance(node, ir.Using) and node.type is not None:
            held = templates.brought_in(node, self.held(node.type.name, self.here))
        if node.name and not (isinstance(node, ir.Using) and node.type is None):
            self.here.vars[node.name] = held or CppType(node, self.here)

    def _asked(self, ask: Callable[[], Any]) -> object:
        if self.lost:
            return None
        try:
            return ask()
        except NotKnown:
            self.lost = True
            return None

    # --- constants --------

    def value(self, node: object, env: Env, depth: int = 0) -> int | float | None:
        """The number that a constant expression has in the scope `env`; None where it is not constant."""
        return constants.value(_Names(self, env), node, depth)

    def held(self, name: str, env: Env) -> Any:
        """What `name` is bound to in the scope `env`. A variable of the kernel is its number, or UNKNOWN."""
        scope: Env | None = env
        while scope is not None:
            if scope is self.here and name in self.run.frame.env:
                value = self.run.frame.env[name]
                return value.const if isinstance(value, Linear) and not value.terms else UNKNOWN
            if name in scope.vars:
                return scope.vars[name]
            scope = scope.parent
        return env.get(name)

    def constant(self, member: Member, depth: int) -> int | float | None:
        """The number of a class's static constant or of a variable template; None where unknown."""
        node = member.node
        if not member.constant or not isinstance(node, ir.Decl) or node.type is None or node.type.dims:
            return None
        init = node.init
        one = init.items[0] if isinstance(init, ir.Seq) and len(init.items) == 1 else init
        value = self.value(one, member.owner.env, depth)
        kind = self.named(node.type, member.owner.env)
        return None if value is None else integers.held(value, kind.base if kind == Kind(kind.base) else None)

    # --- the domain --------

    def scope(self, env: Env, bound: Mapping[str, object]) -> Env:
        """A scope inside `env` in which the template parameters are bound as `bound` says."""
        return Env(dict(bound), env) if bound else env

    def argument(self, node: ir.Expr, kind: str, scope: Env) -> Any:
        """The type or number that a template argument stands for."""
        if kind == "template" and isinstance(node, ir.TypeRef):
            return self.held(node.name, scope)
        return self.named(node, scope) if kind == "type" and isinstance(node, ir.TypeRef) else self.value(node, scope)

    def named(self, ref: ir.TypeRef, scope: Env) -> Kind:
        """The type that `ref` names in a scope. A type that the text does not define has the last part of its name."""
        made = self.classes.written(ref, scope)
        kind = made if isinstance(made, Kind) else self._outside(ref)
        return replace(kind, pointers=kind.pointers + ref.pointers + len(ref.dims))

    def _outside(self, ref: ir.TypeRef) -> Kind:
        vector = dtypes.vector_from_cpp(ref.name)
        base = dtypes.from_cpp(ref.name) or ref.name.rpartition("::")[2]
        return Kind("?" if ref.member or ref.args else base) if vector is None else Kind(*vector)

    def lookup(self, name: str, scope: Env) -> CppType | Kind | None:
        """The class, alias or type that `name` is bound to in a scope; None for other names."""
        found = self.held(name, scope)
        return found if isinstance(found, CppType) else self.seen(found)

    def seen(self, value: object) -> Kind | None:
        """A type of the launch or of the walk as a `Kind`; None for values that are no type."""
        if isinstance(value, DType):
            return Kind(value.name)
        if isinstance(value, Type) and isinstance(value.base, str):
            return Kind(value.base, value.lanes, value.pointers)
        if isinstance(value, TypeValue):
            return self.named(value.ref, value.env)
        return value if isinstance(value, Kind) else None

    def key(self, value: object, depth: int = 0) -> Hashable | None:
        """The key by which a template argument is compared; None where it is unknown."""
        if isinstance(value, int | float):
            return int(value) if isinstance(value, int) else value
        if isinstance(value, tuple):
            return packed(self.key(part, depth + 1) for part in value)
        if isinstance(value, CppType):
            return Type(id(value.node))
        kind = self.seen(value)
        if kind is None or depth > MAX_DEPTH or kind.base in ("?", "auto", "decltype"):
            return None
        if kind.decl is None:
            return Type(kind.base, kind.lanes, kind.pointers)
        bound = (*(arg for _, arg in kind.args), *outer_arguments(kind.decl))
        args = tuple(self.key(arg, depth + 1) for arg in bound)
        return None if None in args else Type(id(kind.decl.node), 1, kind.pointers, args)

    def pointed(self, kind: Kind, levels: int) -> Kind:
        """The type of what `levels` dereferences of a pointer of type `kind` lead to."""
        return replace(kind, pointers=max(kind.pointers - levels, 0))

    def extents(self, kind: Kind) -> tuple[int | None, ...]:
        """Always empty: no functions are called here, so that no array sizes need be deduced."""
        return ()

    def class_template(self, kind: Kind) -> tuple[str, tuple[Any, ...]]:
        """The class template that a type is an instance of, by name, with its arguments."""
        return self.classes.template(kind)

    def definition(self, kind: object) -> tuple[CppType, Mapping[str, Any]] | None:
        """The class of the text that a type is or points to, with its bound template parameters; None for other
        types."""
        made = self.seen(kind)
        return (made.decl, dict(made.args)) if made is not None and made.decl is not None else None

    def made(self, kind: CppType, args: dict[str, Any]) -> Kind:
        """The class `kind` with these template arguments, as a type."""
        return Kind(decl=kind, args=tuple(args.items()))

    def same(self, value: object) -> Hashable | None:
        """A key that is the same for identical template arguments only, numbers of different types included; None where
        unknown."""
        if isinstance(value, tuple):
            parts = tuple([self.same(part) for part in value])
            return None if None in parts else parts
        return (type(value), value) if isinstance(value, int | float) else self.key(value)

    def pack(self, values: Sequence[object]) -> object:
        """The value of a template parameter pack: a tuple."""
        return tuple(values)

    def unpacked(self, value: object) -> tuple[object, ...] | None:
        """The arguments that a parameter pack is bound to; None for what is bound to another parameter."""
        return value if isinstance(value, tuple) else None

    def unsure(self, what: str, loc: ir.Loc) -> None:
        """Raises NotKnown: from here on nothing is said about the kernel's types."""
        raise NotKnown(what, loc)

    def spend(self, steps: int) -> None:
        """Spends steps of the walk."""
        self.run.step(steps)


class _Names:
    """What names in a constant expression mean in a scope; see `constants.Names`."""

    def __init__(self, types: Types, env: Env) -> None:
        self.types, self.env = types, env

    def number(self, node: ir.Name | ir.TypeRef, depth: int) -> int | float | None:
        types, env = self.types, self.env
        if isinstance(node, ir.TypeRef) and traits.asked(node):
            return traits.value(types, node, env)
        if isinstance(node, ir.Name) or not node.args and not node.member:
            return self._named(node.id if isinstance(node, ir.Name) else node.name, node.loc, depth)
        variable = types.classes.variable(node, env)
        if variable is not None:
            return types.constant(variable, depth)
        owner = types.named(ir.TypeRef(node.name, node.args, node.loc), env)
        member = types.classes.member(owner, node.member, env)
        return None if member is None else types.constant(member, depth)

    def _named(self, name: str, loc: ir.Loc, depth: int) -> int | float | None:
        found = self.types.held(name, self.env)
        if found is None and "::" in name:
            found = self.types.classes.scoped(name, loc, self.env)
        if isinstance(found, Member):
            return self.types.constant(found, depth)
        if isinstance(found, ir.Decl) and "constexpr" in found.storage and found.init is not None:
            return self.types.value(found.init, self.env, depth)
        return found if isinstance(found, int | float) else None

    def element(self, ref: ir.TypeRef) -> str | None:
        kind = self.types.named(ref, self.env)
        return kind.base if kind == Kind(kind.base) and kind.base in dtypes.BITS else None

    def size(self, node: ir.Expr, aligned: bool) -> int | None:
        ref = templates.written(node, "type")
        return layout.measured(self.types, ref, self.env, aligned=aligned) if isinstance(ref, ir.TypeRef) else None

    def spend(self, steps: int) -> None:
        self.types.run.step(steps)


def _laid(types: Types, kind: Kind, depth: int = 0) -> Laid | None:
    """How a type lies in memory if it is a vector or a class of the text; None where that is not known."""
    if kind.pointers or depth > MAX_NESTED:
        return None
    if kind.decl is None:
        bits = dtypes.BITS.get(kind.base)
        if kind.lanes not in (2, 3, 4) or bits is None:
            return None
        lanes = {name: Field(at * bits, bits) for at, name in enumerate(_LANES[: kind.lanes])}
        return Laid(bits * kind.lanes, lanes)
    made = types.classes.of(kind)
    whole = None if made is None or made.bases else layout.of_class(types, made)
    if made is None or whole is None:
        return None
    fields: dict[str, Field] = {}
    end = 0
    for member in made.fields:
        found = _field(types, member, end, depth)
        if found is None or not isinstance(member.node, ir.Decl):
            return None
        at = 0 if made.union else found.at
        fields[member.node.name] = replace(found, at=at)
        end = at + found.bits * (found.count or 1)
    return Laid(whole[0] * 8, fields)


def _field(types: Types, member: Member, end: int, depth: int) -> Field | None:
    """The next field of a struct, of which so many bits are taken."""
    node, scope = member.node, types.scope(member.owner.env, {})
    if not isinstance(node, ir.Decl) or node.type is None:
        return None
    whole, multiple = (layout.measured(types, node.type, scope, aligned=aligned) for aligned in (False, True))
    one = whole if not node.type.dims else layout.measured(types, replace(node.type, dims=()), scope)
    if not whole or not one or not multiple:
        return None
    at = -(-end // (multiple * 8)) * multiple * 8
    inner = (
        None if len(node.type.dims) > 1 else _laid(types, types.named(replace(node.type, dims=()), scope), depth + 1)
    )
    return Field(at, one * 8, inner, whole // one if node.type.dims else None)
