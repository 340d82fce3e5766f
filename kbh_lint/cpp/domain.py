"""What the rules of C++ ask of an interpreter of it: the types of its values, and scopes in which names mean one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import CppType, Env

if TYPE_CHECKING:
    from kbh_lint.cpp.classes import Classes

# What a domain binds a template parameter to, a type or a constant, and a scope of it.
Bound = Any
Scope = Any


@dataclass(frozen=True, slots=True)
class Type:
    """A type as overloads, deduction and specialisations compare it.

    `base` is the element type of numbers and vectors (`f32`), the identity of a class's definition, or the last part of
    a name that the text does not define. `args` are the arguments of a class template, as keys. Arrays are pointers,
    and references are what they refer to.
    """

    base: str | int
    lanes: int = 1
    pointers: int = 0
    args: tuple[Hashable, ...] = ()


def packed(keys: Iterable[Hashable | None]) -> tuple[Hashable, ...] | None:
    """The key of a parameter pack, given those of what it is bound to; None where one of these is unknown."""
    made = tuple(keys)
    return None if None in made else made


class Domain(Protocol):
    """What the rules of C++ need of an interpreter: its types and its scopes."""

    classes: Classes

    def scope(self, env: Env, bound: Mapping[str, Bound]) -> Scope:
        """A scope inside `env` in which template parameters are bound as `bound` says."""
        ...

    def argument(self, node: ir.Expr, kind: str, scope: Scope) -> Bound | None:
        """The value of a template argument, or of a default, for a parameter of a `kind` (type, value, template); None
        where unknown."""
        ...

    def named(self, ref: ir.TypeRef, scope: Scope) -> Bound | None:
        """The type that `ref` names in a scope; None where unknown."""
        ...

    def key(self, value: Bound) -> Hashable | None:
        """The key by which C++ compares a template argument: a `Type`, or a number; None where unknown."""
        ...

    def pointed(self, kind: Bound, levels: int) -> Bound:
        """The type of what `levels` dereferences of a pointer of type `kind` lead to."""
        ...

    def extents(self, kind: Bound) -> tuple[int | None, ...]:
        """The sizes of the dimensions of an array type, the outermost first, None for an unknown one; empty for other
        types, and where nothing is known."""
        ...

    def class_template(self, kind: Bound) -> tuple[str, tuple[Bound, ...]]:
        """The name of the class template that a type is an instance of, and its arguments; `("", ())` for other types.
        For classes that the text defines it is `Classes.template`."""
        ...

    def definition(self, kind: Bound) -> tuple[CppType, Mapping[str, Bound]] | None:
        """The class of the text that a type is, and what its template parameters are bound to; None for other types."""
        ...

    def made(self, kind: CppType, args: dict[str, Bound]) -> Bound:
        """The type of the class `kind` with its template parameters bound to `args`."""
        ...

    def lookup(self, name: str, scope: Scope) -> CppType | Bound | None:
        """The class, alias or type that a type name is bound to in a scope (a template parameter is bound to its type);
        None for other names."""
        ...

    def same(self, value: Bound) -> Hashable | None:
        """A key that distinguishes template arguments more finely than `key` does, so that what follows from them can
        be stored under it; None where there is none."""
        ...

    def spend(self, steps: int) -> None:
        """Called for work that grows with the text, so that it can be bounded."""
        ...

    def pack(self, values: list[Bound]) -> Bound:
        """The value to which a template parameter pack is bound, given its arguments."""
        ...

    def unpacked(self, value: Bound) -> Sequence[Bound] | None:
        """The arguments that a template parameter pack is bound to; None for what is bound to another parameter."""
        ...

    def held(self, name: str, scope: Scope) -> Bound | None:
        """What a name that is no type is bound to in a scope, as that of a parameter pack; None where unknown."""
        ...

    def unsure(self, what: str, loc: ir.Loc) -> None:
        """Called where something could not be decided; `what` describes it."""
        ...
