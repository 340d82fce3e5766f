"""What the rules of C++ ask of an interpreter of it: the types of its values, and scopes in which names mean one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
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


class Domain(Protocol):
    """An interpreter of C++ as the rules of the language see it."""

    classes: Classes

    def scope(self, env: Env, bound: Mapping[str, Bound]) -> Scope:
        """The scope of a definition in `env` whose template parameters are bound."""
        ...

    def argument(self, node: ir.Expr, kind: str, scope: Scope) -> Bound | None:
        """A template argument or default for a parameter of a `kind` (type, value, template); None when unknown."""
        ...

    def named(self, ref: ir.TypeRef, scope: Scope) -> Bound | None:
        """The type that is written; None when it is not known."""
        ...

    def key(self, value: Bound) -> Hashable | None:
        """What a template argument is compared by: a `Type`, or a number; None when it is not known."""
        ...

    def pointed(self, kind: Bound, levels: int) -> Bound:
        """The type behind so many pointers."""
        ...

    def extents(self, kind: Bound) -> tuple[int | None, ...]:
        """The sizes of the dimensions of an array, from the outermost on, as far as they are known; of other types, and
        where nothing is known, none."""
        ...

    def class_template(self, kind: Bound) -> tuple[str, tuple[Bound, ...]]:
        """The name of the class template that a type was made of, and its arguments; `("", ())` of other types. Of
        classes of the text, `Classes.template`."""
        ...

    def definition(self, kind: Bound) -> tuple[CppType, Mapping[str, Bound]] | None:
        """The class of the text that a type is, and what its template parameters are bound to; None of other types."""
        ...

    def made(self, kind: CppType, args: dict[str, Bound]) -> Bound:
        """The type that a class is whose template parameters are bound."""
        ...

    def lookup(self, name: str, scope: Scope) -> CppType | Bound | None:
        """What a name of a type is bound to in a scope: a class or an alias of the text, or the type that a template
        parameter stands for; None for other names."""
        ...

    def same(self, value: Bound) -> Hashable | None:
        """What tells a template argument from others, more closely than what it is compared by; None when nothing
        does."""
        ...

    def spend(self, steps: int) -> None:
        """Work was done that grows with the text."""
        ...

    def pack(self, values: list[Bound]) -> Bound:
        """What a template parameter pack is bound to."""
        ...

    def unsure(self, what: str, loc: ir.Loc) -> None:
        """Something could not be decided: `what` says so in words."""
        ...
