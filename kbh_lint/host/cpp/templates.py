"""Types of C++ host code as the rules of the language see them: for overloads, template arguments, specialisations."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import CppType, DType, Env, Func, Overloads, Sym, TypeValue, Value
from kbh_lint.cpp import integers, overloads, templates, traits
from kbh_lint.cpp.classes import Classes
from kbh_lint.cpp.domain import Type, packed
from kbh_lint.cpp.members import Injected, outer_arguments
from kbh_lint.host.cpp import types as cpp_types
from kbh_lint.host.values.cpp_objects import CStruct, Pack, Pointer, Slot
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

MAX_DEPTH = 8
SAME_STEPS = 8  # of the run, for each type that is compared: it is looked up a few times
Known = dict[tuple[Hashable, int], tuple[Any, TypeValue]]  # what types come to that were met, by text and scope


def _met(value: TypeValue) -> tuple[Hashable, int]:
    """By what a type is known again: a name alone means the same wherever it is written in a scope."""
    ref = value.ref
    plain = not (ref.args or ref.member or ref.dims or ref.name in ("auto", "decltype"))
    return ((ref.name, ref.pointers) if plain else id(ref)), id(value.env)


_T = TypeVar("_T")
OfScopes = dict[int, tuple[Any, dict[Any, _T]]]  # what is noted of variables, by the scope or object that holds them


def note(known: OfScopes[_T], table: Value, name: Value, value: _T) -> None:
    """Notes something of a variable until its scope ends."""
    known.setdefault(id(table), (table, {}))[1][name] = value


def noted(known: OfScopes[_T], table: Value, name: Value) -> _T | None:
    """Returns what was noted of a variable."""
    found = known.get(id(table))
    return found[1].get(name) if found is not None and found[0] is table else None


class Types:
    """The types of one run, a `kbh_lint.cpp.domain.Domain`. Template parameters are bound to numbers, `DType`s, types
    with their scopes, and `Type`s where only an argument tells them."""

    def __init__(self, run: Cpp) -> None:
        self.run = run
        self.classes = Classes(self)
        self.pointers: OfScopes[Any] = {}  # types of variables that hold addresses
        self.written: OfScopes[TypeValue] = {}  # types of variables that may hold nothing

    def scope(self, env: Env, bound: Mapping[str, Value]) -> Env:
        """Returns the scope of a definition in `env`, with the template parameters in `bound` as variables."""
        return Env(dict(bound), env) if bound else env

    def argument(self, node: ir.Expr, kind: str, scope: Env) -> Any:
        """Evaluates a template argument of a `kind` (type, value, template); None where it is not known."""
        if kind == "template" and isinstance(node, ir.TypeRef):
            return _lookup(scope, node.name)
        value = cpp_types.argument(self.run, node, scope)
        return None if isinstance(value, Unknown) else value

    def named(self, ref: ir.TypeRef, scope: Env) -> Any:
        """Returns the type `ref` together with the scope in which it is written."""
        return TypeValue(ref, scope)

    def key(self, value: Value, depth: int = 0, known: Known | None = None) -> Hashable | None:
        """Returns a hashable that is equal for equal template arguments; None where it is not known. `known` caches the
        types within a type, since `pair<pair<A, A>, ...>` would otherwise take twice as long at each level."""
        if isinstance(value, (bool, int, float, str)):
            return int(value) if isinstance(value, bool) else value
        if isinstance(value, Type):
            return value
        if isinstance(value, Pack):
            return packed(self.key(part, depth + 1, known) for part in value)
        if isinstance(value, DType):
            return Type(value.name)
        if isinstance(value, CppType):  # a class template
            return Type(id(value.node))
        if isinstance(value, Sym):
            return value.path.rpartition("::")[2]
        if isinstance(value, (Func, Overloads)):
            return id(value.node if isinstance(value, Func) else value.funcs[0].node)
        if not isinstance(value, TypeValue) or depth >= MAX_DEPTH:
            return None
        known = {} if known is None else known
        met = _met(value)
        if met not in known:
            known[met] = self._written(value, depth, known), value  # which keeps both alive
        found: Type | None = known[met][0]
        return found

    def _written(self, value: TypeValue, depth: int, known: Known) -> Type | None:
        """The key of a type in its scope."""
        ref = value.ref
        pointers = ref.pointers + len(ref.dims)
        held = _lookup(value.env, ref.name)
        if isinstance(held, Type) and not ref.member:
            return replace(held, pointers=held.pointers + pointers)
        target, scope = cpp_types.resolve(self.run, ref, value.env)
        pointers = target.pointers + len(ref.dims or target.dims)
        found = _lookup(scope, target.name)
        if isinstance(found, Type) and not target.member:
            return replace(found, pointers=found.pointers + pointers)
        if isinstance(found, CppType) and isinstance(found.node, ir.ClassDef) and not target.member:
            kind, bound = self.classes.instance(found, target.args, scope)
            own = [bound[p.name] for p in kind.node.template if p.name in bound]
            keys = tuple(self.key(arg, depth + 1, known) for arg in (*own, *outer_arguments(kind)))
            return None if None in keys else Type(id(kind.node), 1, pointers, keys)
        vector = dtypes.vector_from_cpp(target.name)
        if vector is not None:
            return Type(*vector, pointers)
        element = cpp_types.element(self.run, replace(ref, pointers=0, dims=()), value.env)
        if element is not None:
            return Type(element, 1, pointers)
        name = target.name.rpartition("::")[2]
        unknown = name in ("", "auto", "decltype") or isinstance(found, Sym) or target.args and traits.makes(target)
        return None if unknown else Type(name, 1, pointers)

    def type_of(self, value: Value) -> Any:
        """Returns the C++ type of an argument's value; an untyped whole number counts as `int`, another number as
        `float`."""
        if isinstance(value, Slot):  # an address
            held = value.get() if not isinstance(value.env, dict) or value.name in value.env else None
            known = self.declared(value.env, value.name)
            inner = self.key(known or self.type_of(held)) if known or not isinstance(held, (int, float, Slot)) else None
            return replace(inner, pointers=inner.pointers + 1) if isinstance(inner, Type) else None
        if isinstance(value, Pointer):
            return Type(value.dtype, 1, 1)
        if isinstance(value, Tensor):
            return Type("Tensor")
        if isinstance(value, (bool, int, float)):
            if isinstance(value, integers.Typed):
                return DType(value.dt)
            return DType("bool" if isinstance(value, bool) else "i32" if isinstance(value, int) else "f32")
        if isinstance(value, DType):
            return Type("ScalarType")
        if isinstance(value, list):
            return Type("vector")
        return value.kwargs.get("type") if isinstance(value, LibObject) else None

    def points(self, name: str, kind: Value, value: Value, env: Env) -> None:
        """Remembers that the variable `name` is a pointer of the type `kind`; its value alone cannot be told from a
        reference."""
        if isinstance(value, Slot) and isinstance(kind, ir.TypeRef) and not kind.reference:
            if kind.name == "auto":
                note(self.pointers, env.vars, name, self.type_of(value))
            elif cpp_types.is_pointer(self.run, kind, env):
                note(self.pointers, env.vars, name, TypeValue(kind, env))

    def holds_address(self, name: str, env: Env) -> bool:
        """Whether a name means a variable that was declared as a pointer to a place."""
        scope: Env | None = env
        while scope is not None and name not in scope.vars:
            scope = scope.parent
        return scope is not None and self.is_pointer(scope, name)

    def declares(self, table: dict[str, Value], node: ir.Decl, env: Env) -> None:
        """Remembers the type of a variable that lies in `table` and holds one value or none, as written in `env`."""
        ref = node.type
        if ref is not None and not ref.pointers and (ref.args or table.get(node.name) is None):
            note(self.written, table, node.name, TypeValue(ref, env))

    def held_type(self, node: ir.Expr, env: Env) -> TypeValue | None:
        """Returns the type of what an optional variable or field holds, by its declared type; None where that is not
        known."""
        kind = self._field_type(node, env) if isinstance(node, ir.Attr) else None
        slot = self.run.place(node, env) if kind is None else None
        if slot is not None:
            kind = noted(self.written, slot.env, slot.name)
        if kind is None:
            return None
        target, scope = cpp_types.resolve(self.run, kind.ref, kind.env)
        one = target.args[0] if target.args and target.name.rpartition("::")[2] in ("optional", "any") else None
        return TypeValue(one, scope) if isinstance(one, ir.TypeRef) else None

    def _field_type(self, node: ir.Attr, env: Env) -> TypeValue | None:
        """The declared type of a field of an object of the text."""
        owner = self.run.eval(node.value, env)
        owner = owner.get() if isinstance(owner, Slot) else owner
        whole = owner.kwargs.get("class") if isinstance(owner, CStruct) else None
        member = whole.members.get(node.name) if whole is not None else None
        if member is None or not isinstance(member.node, ir.Decl) or member.node.type is None:
            return None
        return TypeValue(member.node.type, member.owner.env)

    def is_pointer(self, env: Env, name: str) -> bool:
        """Whether a variable of a scope was declared as a pointer to a place, rather than as a reference."""
        known = self.pointers.get(id(env.vars))
        return known is not None and known[0] is env.vars and name in known[1]

    def declared(self, table: Value, name: Value) -> Any:
        """Returns the declared element type of a variable that holds a number, or the declared type of a pointer; None
        where neither is known."""
        kind = noted(self.pointers, table, name)
        dtype = noted(self.run.widths, table, name) if kind is None else None
        return DType(dtype) if dtype else kind

    def of_argument(self, node: ir.Expr | None, value: Value, env: Env | None) -> Value:
        """Returns the C++ type of an argument: the declared type where `node` names a variable, else that of its
        value."""
        if isinstance(node, ir.Unary) and node.op == "*" and isinstance(value, (bool, int, float)):
            behind = self.of_argument(node.value, None, env)
            return self.type_of(value) if behind is None else self.pointed(behind, 1)
        if isinstance(node, ir.Name) and (value is None or isinstance(value, (bool, int, float, Slot))):
            inner = env
            while inner is not None and node.id not in inner.vars:
                inner = inner.parent
            if inner is not None:
                held = inner.vars[node.id]
                known = self.declared(inner.vars, node.id)
                if known is None and isinstance(held, Slot) and not self.is_pointer(inner, node.id):  # a reference
                    known = self.declared(held.env, held.name)
                if known is not None:
                    return known
        made = node.func if isinstance(node, ir.Call) else None
        if isinstance(made, ir.TypeRef) and made.name.endswith("_sequence"):  # `std::make_index_sequence<4>{}`
            return TypeValue(made, Env() if env is None else env)
        return self.type_of(value)

    def pointed(self, kind: Value, levels: int) -> Value:
        """Returns the type that is left of `kind` when `levels` pointers are followed."""
        if isinstance(kind, TypeValue):
            left = kind.ref.pointers - levels
            if left >= 0:
                return TypeValue(replace(kind.ref, pointers=left), kind.env)
            kind = self.key(kind)  # an alias of a pointer, or of an array
        if not isinstance(kind, Type):
            return kind
        inner = replace(kind, pointers=max(kind.pointers - levels, 0))
        plain = not inner.pointers and inner.lanes == 1 and isinstance(inner.base, str) and inner.base in dtypes.BITS
        return DType(str(inner.base)) if plain else inner

    def extents(self, kind: Value) -> tuple[int | None, ...]:
        """Returns the sizes of an array's dimensions, None for unknown ones; nothing for other types."""
        if not isinstance(kind, TypeValue):
            return ()
        target, scope = cpp_types.resolve(self.run, kind.ref, kind.env)
        sizes = [self.argument(dim, "value", scope) for dim in target.dims]
        return tuple(size if isinstance(size, int) else None for size in sizes)

    def class_template(self, kind: Value) -> tuple[str, tuple[Any, ...]]:
        """Returns the name of the class template that a type was made of, and its arguments; `("", ())` of other
        types."""
        if isinstance(kind, Type):
            return str(kind.base), ()
        if not isinstance(kind, TypeValue):
            return "", ()
        own = self.classes.template(kind)
        if own[0]:
            return own
        target, scope = cpp_types.resolve(self.run, kind.ref, kind.env)
        args = [self.argument(templates.written(arg, "type"), "type", scope) for arg in target.args]
        return target.name.rpartition("::")[2], tuple(args)

    def definition(self, kind: Value) -> tuple[CppType, Mapping[str, Any]] | None:
        """Returns the submission's class that a type names, and its bound template parameters; None of other types."""
        if not isinstance(kind, TypeValue):
            return None
        target, scope = cpp_types.resolve(self.run, kind.ref, kind.env)
        found = _lookup(scope, target.name)
        if not isinstance(found, CppType) or not isinstance(found.node, ir.ClassDef) or target.member:
            return None
        return self.classes.instance(found, target.args, scope)

    def made(self, kind: CppType, args: dict[str, Any]) -> TypeValue:
        """Returns the type of a class for the template arguments `args`, in a scope where the class's name means that
        type."""
        node, env = kind.node, kind.env
        if node.template or isinstance(node, ir.ClassDef) and (node.specialization or node.explicit):
            env = Env({node.name: Injected(node, env, kind.special, own=(kind, args))}, env)
        return TypeValue(ir.TypeRef(node.name, (), node.loc), env)

    def lookup(self, name: str, scope: Env) -> Any:
        """Returns the type that a name is bound to in a scope; None for other names."""
        found = scope.get(name) if "::" not in name else _lookup(scope, name)
        return found if isinstance(found, (CppType, TypeValue, DType, Type)) else None

    def same(self, value: Value, depth: int = 0, known: tuple[Known, Known] | None = None) -> Hashable | None:
        """Returns a hashable that tells template arguments apart more closely than `key`: a number with its type, a
        class by its definition and arguments, another type by its full name."""
        known = ({}, {}) if known is None else known
        if isinstance(value, tuple):
            parts = tuple([self.same(part, depth + 1, known) for part in value])
            return None if None in parts else parts
        if isinstance(value, (bool, int, float, str)):
            return type(value), value, getattr(value, "dt", "")
        if not isinstance(value, TypeValue) or depth > MAX_DEPTH:
            return self.key(value, known=known[1])
        met = _met(value)
        if met not in known[0]:
            known[0][met] = self._same(value, depth, known), value
        found: Hashable | None = known[0][met][0]
        return found

    def _same(self, value: TypeValue, depth: int, known: tuple[Known, Known]) -> Hashable | None:
        self.spend(SAME_STEPS)
        target, scope = cpp_types.resolve(self.run, value.ref, value.env)
        own = self.definition(TypeValue(target, scope))
        if own is not None:
            parts = tuple([self.same(part, depth + 1, known) for part in own[1].values()])
            return None if None in parts else (id(own[0].node), id(own[0].env), target.pointers, parts)
        return None if target.args else (target.name, target.member, target.pointers, self.key(value, known=known[1]))

    def spend(self, steps: int) -> None:
        """Pays `steps` from the run's fuel."""
        self.run.interp.burn(steps)

    def pack(self, values: Sequence[Value]) -> Value:
        """Returns the value that a template parameter pack is bound to."""
        return Pack(values)

    def unpacked(self, value: Value) -> Sequence[Value] | None:
        """The arguments that a parameter pack is bound to; None for what is bound to another parameter."""
        return value if isinstance(value, Pack) else None

    def held(self, name: str, scope: Env) -> Value:
        """What the template parameter `name` is bound to in a scope."""
        return _lookup(scope, name)

    def unsure(self, what: str, loc: ir.Loc) -> None:
        """Records what could not be decided as a hole of the run."""
        self.run.interp.miss(what, loc)


def _lookup(env: Env, name: str) -> Value:
    try:
        return env.lookup(name)
    except KeyError:
        return None


def choose(
    run: Cpp,
    funcs: list[Func],
    args: list[Any],
    given: tuple[ir.Expr, ...] = (),
    env: Env | None = None,
    nodes: tuple[ir.Expr, ...] = (),
) -> overloads.Choice:
    """Chooses, by C++ overload resolution, the function to call. `given` are the explicit template arguments, read in
    the scope `env`; `nodes` are the argument expressions as they are written there."""
    types: Types = run.types
    written = nodes if len(nodes) == len(args) else (None,) * len(args)
    kinds = [types.of_argument(node, arg, env) for node, arg in zip(written, args, strict=True)]
    found = overloads.choose(types, funcs, kinds, given, Env() if env is None else env, {})
    if found is None:
        return overloads.Choice(funcs[-1], {})
    return overloads.Choice(found.func, {name: cpp_types.bindable(value) for name, value in found.bound.items()})


def in_order(target: Value, count: int, kwargs: Mapping[str, Value]) -> list[Any]:
    """Returns keyword arguments in the order of the parameters that follow the `count` positional ones; as given where
    a name is unknown."""
    func = target.funcs[-1] if isinstance(target, Overloads) else target
    names = [p.name for p in func.node.params][count:] if kwargs and isinstance(func, Func) else []
    if set(names[: len(kwargs)]) == set(kwargs):
        return [kwargs[name] for name in names[: len(kwargs)]]
    return list(kwargs.values())
