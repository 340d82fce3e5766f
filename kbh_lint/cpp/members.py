"""What is held of a class of C++: its definition for some template arguments, its scope, and its members."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Union

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Brief, CppType, Env, Func
from kbh_lint.cpp.domain import Bound

CONSTANT = frozenset({"static", "constexpr", "enum"})
UNNAMED = "__anonymous"

Node = Union[ir.Decl, ir.Using, ir.ClassDef, ir.FuncDef]


@dataclass(slots=True, eq=False, repr=False)
class Member(Brief):
    """A member of a class: who declares it, and how; a function with its overloads."""

    owner: Class
    node: Node
    funcs: list[Func] = field(default_factory=list)

    @property
    def constant(self) -> bool:
        """Whether the member has one value for all objects: a static constant or an enumerator."""
        node = self.node
        return isinstance(node, ir.Decl) and node.init is not None and bool(node.storage & CONSTANT)

    @property
    def field(self) -> bool:
        """Whether the member is a field, of which each object has its own."""
        return isinstance(self.node, ir.Decl) and not self.node.storage & {"static", "enum"}


@dataclass(slots=True, eq=False, repr=False)
class ClassEnv(Env):
    """The scope of a class: its template parameters, and its members that are types, constants or static functions."""

    of: Class | None = None


@dataclass(slots=True, eq=False, repr=False)
class Injected(CppType):
    """The name of a class template where it means one class: inside that class, and for a type that was made of it."""

    own: tuple[CppType, dict[str, Bound]] | None = None


@dataclass(slots=True, eq=False, repr=False)
class Class(Brief):
    """A class with its template arguments, scope, bases and members."""

    kind: CppType
    args: dict[str, Bound]
    env: ClassEnv
    members: dict[str, Member] = field(default_factory=dict)  # by name, with those of bases
    own: list[Member] = field(default_factory=list)  # its own fields, in their order
    fields: list[Member] = field(default_factory=list)  # what an object has: those of bases, then its own
    lineage: list[Class] = field(default_factory=list)  # itself and its bases, each once, as a name is looked up
    parts: list[CppType] = field(default_factory=list)  # structs and unions without a name, whose members are its own
    bases: list[Bound] = field(default_factory=list)
    taken: list[Class] = field(default_factory=list)  # bases whose constructors are its own, too

    @property
    def node(self) -> ir.ClassDef:
        """The definition of the class in the source; for a template, the specialisation that its arguments select."""
        assert isinstance(self.kind.node, ir.ClassDef)
        return self.kind.node

    @property
    def union(self) -> bool:
        """Whether the class is a union, whose fields share their memory."""
        return any(word == "union" for word, _ in self.node.keywords)


def outer_arguments(kind: CppType) -> Iterator[Bound]:
    """Yields the template arguments of the classes around a member class."""
    env: Env | None = kind.env
    while env is not None:
        if isinstance(env, ClassEnv) and env.of is not None:
            yield from env.of.args.values()
        env = env.parent


def unnamed(owner: ir.ClassDef, stmt: ir.ClassDef) -> bool:
    """Whether a member of `owner` is an unnamed struct or union that is not the type of a field."""
    return stmt.name.startswith(UNNAMED) and not any(
        isinstance(other, ir.Decl) and other.type is not None and other.type.name == stmt.name for other in owner.body
    )


def declares(stmt: ir.Using) -> bool:
    """Whether `stmt` is a using-declaration that keeps the name, such as `using Base<T>::f;`."""
    ref = stmt.type
    if ref is None or ref.args or stmt.template:
        return False
    return "::" in ref.name and ref.name.rpartition("::")[2] == stmt.name and not ref.member
