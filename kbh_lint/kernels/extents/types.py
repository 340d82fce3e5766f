"""Types and constants of C++ in a kernel whose addresses are followed: element types of aliases, numbers of classes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import UNKNOWN, CppType, DType, Env, TypeValue
from kbh_lint.cpp import integers, layout, templates, traits
from kbh_lint.cpp.classes import Classes
from kbh_lint.cpp.domain import Type
from kbh_lint.cpp.members import Member, outer_arguments
from kbh_lint.kernels.core.folding import compared, fold
from kbh_lint.kernels.core.value import NOTHING
from kbh_lint.kernels.extents.intervals import Linear

if TYPE_CHECKING:
    from kbh_lint.kernels.extents.follow import Follow

MAX_DEPTH = 12


class NotKnown(Exception):
    """A specialisation is chosen by something that is not known."""


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
        self.lost = False  # something was asked that cannot be known
        kernel = run.frame.kernel
        typed = {name: value for name, value in args.items() if isinstance(value, (TypeValue, DType))}
        self.here = Env(typed, kernel.env)  # what names of types mean in the kernel's body

    # --- what the walk asks --------

    def number(self, node: ir.Expr) -> int | None:
        """The whole number that a name or an expression is a constant for, in the kernel's body; None for others."""
        value = self._asked(lambda: self.value(node, self.here))
        return int(value) if isinstance(value, int) else None

    def element(self, ref: ir.TypeRef) -> str | None:
        """The element type that a written type is; None for pointers, vectors, classes and what is not known."""
        kind = self._asked(lambda: self.named(replace(ref, dims=()), self.here))
        return kind.base if isinstance(kind, Kind) and kind == Kind(kind.base) and kind.base in dtypes.BITS else None

    def declare(self, node: ir.Using | ir.ClassDef) -> None:
        """A class or an alias of the kernel's own."""
        if node.name and not (isinstance(node, ir.Using) and node.type is None):
            self.here.vars[node.name] = CppType(node, self.here)

    def _asked(self, ask: Callable[[], Any]) -> Any:
        if self.lost:
            return None
        try:
            return ask()
        except NotKnown:
            self.lost = True
            return None

    # --- constants --------

    def value(self, node: object, env: Env, depth: int = 0) -> int | float | None:
        """The number that a constant expression comes to in a scope."""
        self.run.step()
        handler = _VALUES.get(type(node))
        return None if handler is None or depth > MAX_DEPTH else handler(self, node, env, depth + 1)

    def _held(self, name: str, env: Env) -> Any:
        """What a name is bound to; variables of the kernel are numbers where they are known to be one."""
        scope: Env | None = env
        while scope is not None:
            if scope is self.here and name in self.run.frame.env:
                value = self.run.frame.env[name]
                return value.const if isinstance(value, Linear) and not value.terms else UNKNOWN
            if name in scope.vars:
                return scope.vars[name]
            scope = scope.parent
        return env.get(name)

    def _name(self, node: ir.Name, env: Env, depth: int) -> int | float | None:
        found = self._held(node.id, env)
        if found is None and "::" in node.id:
            found = self.classes.scoped(node.id, node.loc, env)
        if isinstance(found, Member):
            return self._constant(found, depth)
        if isinstance(found, ir.Decl) and "constexpr" in found.storage and found.init is not None:
            return self.value(found.init, env, depth)
        return found if isinstance(found, int | float) else None

    def _constant(self, member: Member, depth: int) -> int | float | None:
        node = member.node
        if not member.constant or not isinstance(node, ir.Decl) or node.type is None or node.type.dims:
            return None
        init = node.init
        one = init.items[0] if isinstance(init, ir.Seq) and len(init.items) == 1 else init
        value = self.value(one, member.owner.env, depth)
        kind = self.named(node.type, member.owner.env)
        return None if value is None else integers.held(value, kind.base if kind == Kind(kind.base) else None)

    def _type(self, node: ir.TypeRef, env: Env, depth: int) -> int | float | None:
        if traits.asked(node):
            return traits.value(self, node, env)
        if not node.args and not node.member:
            return self._name(ir.Name(node.name, node.loc), env, depth)
        variable = self.classes.variable(node, env)
        if variable is not None:
            return self._constant(variable, depth)
        owner = self.named(ir.TypeRef(node.name, node.args, node.loc), env)
        member = self.classes.member(owner, node.member, env)
        return None if member is None else self._constant(member, depth)

    def _unary(self, node: ir.Unary, env: Env, depth: int) -> int | float | None:
        value = self.value(node.value, env, depth)
        if value is None or node.op not in ("-", "+", "not"):
            return None
        return -value if node.op == "-" else value if node.op == "+" else not value

    def _binary(self, node: ir.Binary, env: Env, depth: int) -> int | float | None:
        left, right = self.value(node.left, env, depth), self.value(node.right, env, depth)
        made = NOTHING if left is None or right is None else fold(node.op, left, right, c_division=True)
        return made if isinstance(made, int | float) else None

    def _compare(self, node: ir.Compare, env: Env, depth: int) -> bool | None:
        left, right = self.value(node.left, env, depth), self.value(node.rights[0], env, depth)
        return None if left is None or right is None or len(node.ops) != 1 else compared(node.ops[0], left, right)

    def _bool(self, node: ir.Bool, env: Env, depth: int) -> bool | None:
        parts = [self.value(part, env, depth) for part in node.values]
        if None in parts:
            return None
        return all(parts) if node.op == "and" else any(parts)

    def _cond(self, node: ir.Cond, env: Env, depth: int) -> int | float | None:
        test = self.value(node.test, env, depth)
        return None if test is None else self.value(node.yes if test else node.no, env, depth)

    def _cast(self, node: ir.Cast, env: Env, depth: int) -> int | float | None:
        return self._converted(node.type, node.value, env, depth)

    def _call(self, node: ir.Call, env: Env, depth: int) -> int | float | None:
        func = node.func
        name = func.id if isinstance(func, ir.Name) else func.name if isinstance(func, ir.TypeRef) else ""
        if len(node.args) != 1:
            return None
        if name in ("sizeof", "alignof"):
            ref = templates.written(node.args[0], "type")
            if not isinstance(ref, ir.TypeRef):
                return None
            return layout.measured(self, ref, env, aligned=name == "alignof")
        return self._converted(ir.TypeRef(name, (), node.loc), node.args[0], env, depth) if name else None

    def _converted(self, ref: ir.TypeRef, node: ir.Expr, env: Env, depth: int) -> int | float | None:
        kind, value = self.named(ref, env), self.value(node, env, depth)
        plain = kind == Kind(kind.base) and kind.base in dtypes.BITS
        return integers.held(value, kind.base) if plain and value is not None else None

    # --- the domain --------

    def scope(self, env: Env, bound: Mapping[str, Any]) -> Env:
        """Template parameters as variables."""
        return Env(dict(bound), env) if bound else env

    def argument(self, node: ir.Expr, kind: str, scope: Env) -> Any:
        """A type or a number."""
        if kind == "template" and isinstance(node, ir.TypeRef):
            return self._held(node.name, scope)
        return self.named(node, scope) if kind == "type" and isinstance(node, ir.TypeRef) else self.value(node, scope)

    def named(self, ref: ir.TypeRef, scope: Env) -> Kind:
        """The type that is written; one that the text does not define by its last name."""
        made = self.classes.written(ref, scope)
        kind = made if isinstance(made, Kind) else self._outside(ref)
        return replace(kind, pointers=kind.pointers + ref.pointers + len(ref.dims))

    def _outside(self, ref: ir.TypeRef) -> Kind:
        vector = dtypes.vector_from_cpp(ref.name)
        base = dtypes.from_cpp(ref.name) or ref.name.rpartition("::")[2]
        return Kind("?" if ref.member or ref.args else base) if vector is None else Kind(*vector)

    def lookup(self, name: str, scope: Env) -> CppType | Kind | None:
        """A name of a scope, or of the text."""
        found = self._held(name, scope)
        return found if isinstance(found, CppType) else self.seen(found)

    def seen(self, value: object) -> Kind | None:
        """A type, also one that the launch gives."""
        if isinstance(value, DType):
            return Kind(value.name)
        if isinstance(value, Type) and isinstance(value.base, str):
            return Kind(value.base, value.lanes, value.pointers)
        if isinstance(value, TypeValue):
            return self.named(value.ref, value.env)
        return value if isinstance(value, Kind) else None

    def key(self, value: object, depth: int = 0) -> Hashable | None:
        """What it is compared by."""
        if isinstance(value, int | float):
            return int(value) if isinstance(value, int) else value
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
        """What so many pointers lead to."""
        return replace(kind, pointers=max(kind.pointers - levels, 0))

    def inside(self, kind: Kind) -> tuple[str, tuple[Any, ...]]:
        """The class template of a struct."""
        return self.classes.template(kind)

    def definition(self, kind: object) -> tuple[CppType, Mapping[str, Any]] | None:
        """The class that a type is, or points to."""
        made = self.seen(kind)
        return (made.decl, dict(made.args)) if made is not None and made.decl is not None else None

    def made(self, kind: CppType, args: dict[str, Any]) -> Kind:
        """A struct."""
        return Kind(decl=kind, args=tuple(args.items()))

    def same(self, value: object) -> Hashable | None:
        """What it is compared by tells all of it, with the type of a number."""
        if isinstance(value, tuple):
            parts = tuple([self.same(part) for part in value])
            return None if None in parts else parts
        return (type(value), value) if isinstance(value, int | float) else self.key(value)

    def pack(self, values: list[Any]) -> Any:
        """A pack is a tuple."""
        return tuple(values)

    def unsure(self, what: str, loc: ir.Loc) -> None:
        """Then nothing is said of types any more."""
        raise NotKnown(what, loc)

    def spend(self, steps: int) -> None:
        """Of the walk's steps."""
        self.run.step(steps)


def _const(types: Types, node: ir.Const, env: Env, depth: int) -> int | float | None:
    return node.value if isinstance(node.value, int | float) else None


_VALUES: dict[type, Callable[[Types, Any, Env, int], int | float | None]] = {
    ir.Const: _const, ir.Name: Types._name, ir.TypeRef: Types._type, ir.Unary: Types._unary, ir.Binary: Types._binary,
    ir.Compare: Types._compare, ir.Bool: Types._bool, ir.Cond: Types._cond, ir.Cast: Types._cast, ir.Call: Types._call,
}  # fmt: skip
