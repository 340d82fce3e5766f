"""C++ types on the host side: what names and aliases mean, what class templates make, casts."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import CppType, DType, Env, TypeValue, Value
from kbh_lint.cpp import traits
from kbh_lint.cpp.domain import Type
from kbh_lint.cpp.members import Member
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.values import equality
from kbh_lint.host.values.cpp_objects import CStruct, Pointer, Slot
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

MAX_LOOP = 256  # iterations of a loop that works on tensors
MAX_COUNTED = 1024  # iterations of one that only computes
COUNTS = frozenset({"int", "int32_t", "int64_t", "long", "size_t", "long long", "unsigned", "uint32_t"})
MAX_DEPTH = 24
_MADE = "type that is made"
_TYPES = (ir.Using, ir.ClassDef)  # members that are types


def argument(run: Cpp, node: ir.Expr, env: Env) -> Any:
    """Evaluates a template argument: a number, an element type, or a type with its scope."""
    if isinstance(node, (ir.TypeRef, ir.Name)):
        found = _written(run, node, env)
        if found is not NotImplemented:
            return found
    value = run.eval(node, env)
    return value.get() if isinstance(value, Slot) else value


def _written(run: Cpp, node: ir.TypeRef | ir.Name, env: Env) -> Value:
    """What a type or a name means as an argument; NotImplemented for what is evaluated as any other expression."""
    if isinstance(node, ir.Name):
        return _named(run, node.id, node, env)
    if node.pointers or node.dims:
        return TypeValue(node, env)
    if node.name == "decltype" and not node.member:
        kind = _of_value(run, node, env)
        if kind is not None:
            return kind
    if node.args or node.member:
        value = run.eval(node, env)
        return value if isinstance(value, (int, float, bool)) else _closed(run, node, env)
    found = _named(run, node.name, node, env)
    return TypeValue(node, env) if found is NotImplemented else found


def _closed(run: Cpp, ref: ir.TypeRef, env: Env) -> TypeValue:
    """A type in its scope, of whose arguments those that only values tell, `A<decltype(x)>`, are bound there: whoever
    reads it may not know the values."""
    bound: dict[str, Value] = {}

    def argument_of(node: ir.Expr) -> ir.Expr:
        if not isinstance(node, ir.TypeRef) or not node.args:
            return node
        if node.name != "decltype":
            args = tuple([argument_of(arg) for arg in node.args])
            return node if args == node.args else replace(node, args=args)
        value = argument(run, node, env)
        if isinstance(value, TypeValue):
            value = TypeValue(*resolve(run, value.ref, value.env))
        if isinstance(value, Unknown) or isinstance(value, TypeValue) and value.ref.name == "decltype":
            return node
        name = f"decltype {len(bound)}"
        bound[name] = value
        return ir.TypeRef(name, (), node.loc)

    made = ref if ref.name == "decltype" else argument_of(ref)
    return TypeValue(made, Env(bound, env)) if bound and isinstance(made, ir.TypeRef) else TypeValue(ref, env)


def _named(run: Cpp, name: str, node: ir.TypeRef | ir.Name, env: Env) -> Value:
    """What a plain name means: a number, a type, or an element type; NotImplemented where it is none of these."""
    try:
        found = env.lookup(name)
    except KeyError:
        found = None
    if isinstance(found, (int, float, bool, DType, TypeValue)):
        return found
    if isinstance(found, Member):
        return constant(run, found)
    if isinstance(found, CppType):
        ref = node if isinstance(node, ir.TypeRef) else ir.TypeRef(name, (), node.loc)
        alias = found.node.type if isinstance(found.node, ir.Using) else None
        if alias is not None and alias.name == "decltype" and not found.node.template:
            return argument(run, alias, found.env)
        return TypeValue(ref, env)
    if found is not None and not isinstance(found, ir.Decl):
        return found
    scalar = dtypes.from_cpp(name)
    return DType(scalar) if scalar is not None else NotImplemented


def resolve(run: Cpp, ref: ir.TypeRef, env: Env) -> tuple[ir.TypeRef, Env]:
    """Follows aliases, template parameters, conditional types and members of classes as far as the source defines them;
    returns the resulting type, with all pointers met on the way, and the scope in which it is written."""
    for _ in range(MAX_DEPTH):
        meant = _step(run, ref, env)
        if meant is None:
            return ref, env
        if meant.ref is ref:
            return ref, meant.env
        ref, env = meant.ref, meant.env
    return ref, env


def _step(run: Cpp, ref: ir.TypeRef, env: Env) -> TypeValue | None:
    """The type with what its first name stands for in that name's place; None where the name is no other type's. The
    same reference in another scope is as far as it can be followed."""
    if run.unbound(ref.name, env):
        return _unnamed(run, ref, env)
    try:
        found = env.lookup(ref.name)
    except KeyError:
        return _unnamed(run, ref, env)
    if isinstance(found, TypeValue):
        if not ref.args:
            return _behind(found, ref)
        whole = found.env.get(found.ref.name)  # a parameter that is a class template
        known = isinstance(whole, CppType) and not found.ref.args and not found.ref.member
        return TypeValue(ref.inside(ref.member), Env({ref.name: whole}, env)) if known else None
    if not isinstance(found, CppType):
        return None
    if isinstance(found.node, ir.ClassDef):
        return _inside(run, found, ref, env) if ref.member else None
    if found.node.type is not None and found.node.type.name == ref.name and found.env is env:
        return None
    kind = run.types.classes.aliased(found, found.node, ref.args, env)
    return _behind(kind, ref) if isinstance(kind, TypeValue) else None


def _unnamed(run: Cpp, ref: ir.TypeRef, env: Env) -> TypeValue | None:
    """The same of a type whose name is none of the scope: `decltype`, one that the standard library makes of others, a
    path of names."""
    kind = _of_value(run, ref, env)
    if isinstance(kind, TypeValue):
        return _behind(kind, ref)
    if ref.args and traits.makes(ref):
        made = traits.made(run.types, ref, env)
        if isinstance(made, DType):
            made = TypeValue(ir.TypeRef(dtypes.cpp_name(made.name, 1), (), ref.loc), env)
        if isinstance(made, Type):  # which only an argument told
            made = TypeValue(ir.TypeRef(_MADE, (), ref.loc), Env({_MADE: made}, env))
        return _behind(made, ref, traits.behind(ref)) if isinstance(made, TypeValue) else None
    path = "::" in ref.name and not run.unbound(ref.name, env)
    inside = run.types.classes.scoped(ref.name, ref.loc, env) if path else None
    return _within(ref, inside, env) if inside is not None and isinstance(inside.node, _TYPES) else None


def _behind(kind: TypeValue, ref: ir.TypeRef, rest: tuple[str, ...] | None = None) -> TypeValue:
    """A type in the place of the name that stands for it: with the members that follow that name, and its pointers."""
    of = kind.ref
    member = (*of.member, *(ref.member if rest is None else rest))
    return TypeValue(ir.TypeRef(of.name, of.args, of.loc, member, of.pointers + ref.pointers, dims=of.dims), kind.env)


def _inside(run: Cpp, found: CppType, ref: ir.TypeRef, env: Env) -> TypeValue | None:
    """One step into a class: the type that its member is, in the scope of the class that declares it. The reference
    itself in the scope of the class where the member is no type; None where there is no class."""
    classes = run.types.classes
    made = classes.defined(*classes.instance(found, ref.args, env))
    if made is None:
        return None
    first, rest = ref.member[0], ref.member[1:]
    member = made.members.get(first.name if isinstance(first, ir.TemplateName) else first)
    if member is None or not isinstance(member.node, _TYPES):
        return TypeValue(ref, made.env)
    args = first.args if isinstance(first, ir.TemplateName) else ()
    return _within(ir.TypeRef(first, args, ref.loc, rest, ref.pointers), member, env)


def _within(ref: ir.TypeRef, member: Member, env: Env) -> TypeValue:
    """A member of a class as a type of its scope; its template arguments are those of the scope where it is named."""
    name, own = member.node.name, member.owner.env
    scope = Env({name: own.vars[name]}, env) if ref.args else own
    return TypeValue(ir.TypeRef(name, ref.args, ref.loc, ref.member, ref.pointers), scope)


def _of_value(run: Cpp, ref: ir.TypeRef, env: Env) -> Value:
    """`decltype(x)`: the type of a variable or field; None for other types and what is not known."""
    if ref.name != "decltype" or len(ref.args) != 1 or not isinstance(ref.args[0], (ir.Name, ir.Attr)):
        return None
    value = run.eval(ref.args[0], env)
    value = value.get() if isinstance(value, Slot) else value
    kind = run.types.of_argument(ref.args[0], value, env)
    return bindable(kind)


def own_class(run: Cpp, ref: ir.TypeRef, env: Env) -> CppType | None:
    """Returns the class of the submission that a type names; None of other types."""
    target, scope = resolve(run, ref, env)
    return None if target.member else class_in(scope, target.name)


def class_in(env: Env, name: str) -> CppType | None:
    """Returns the class of the submission that a name means in a scope; None of other names."""
    try:
        found = env.lookup(name)
    except KeyError:
        return None
    return found if isinstance(found, CppType) and isinstance(found.node, ir.ClassDef) else None


def is_pointer(run: Cpp, ref: ir.TypeRef, env: Env) -> bool:
    """Whether a type is a pointer, also through an alias."""
    return ref.pointers > 0 or dtypes.from_cpp(ref.name) is None and resolve(run, ref, env)[0].pointers > 0


def static_member(run: Cpp, ref: ir.TypeRef, env: Env) -> Value:
    """Returns the constant `Traits<T>::value` of a class or its bases; None where there is none."""
    member = run.types.classes.member(TypeValue(ref.inside(()), env), ref.member, env)
    return constant(run, member) if member is not None and member.constant else None


def constant(run: Cpp, member: Member) -> Value:
    """Evaluates a static constant or an enumerator of a class."""
    assert isinstance(member.node, ir.Decl)
    return run.initial(member.node, member.owner.env)


def element(run: Cpp, ref: ir.TypeRef, env: Env) -> str | None:
    """Returns the element type that a C++ type means; None of `void`, classes and others."""
    direct = dtypes.from_cpp(ref.name)
    if direct is not None and not ref.member:
        return direct
    vector = dtypes.vector_from_cpp(ref.name)
    if vector is not None:
        return vector[0]
    try:
        value = None if run.unbound(ref.name, env) else env.lookup(ref.name)
    except KeyError:
        value = None
    if isinstance(value, DType):
        return value.name
    target, scope = resolve(run, ref, env)
    if target is ref:
        return None
    found = dtypes.from_cpp(target.name)
    behind = scope.get(target.name)
    if found is None and isinstance(behind, DType):
        return behind.name  # a template parameter behind an alias
    return found or (dtypes.vector_from_cpp(target.name) or (None, 0))[0]


def cast(run: Cpp, ref: ir.TypeRef, value: Value, env: Env) -> Value:
    """Casts a value to the type `ref`: a pointer changes its element type, and an integer that is an address becomes a
    pointer to the tensor there."""
    pointer = is_pointer(run, ref, env)
    if isinstance(value, Slot) and not pointer:
        value = value.get()
    if pointer or ref.name in ("CUdeviceptr",):
        if isinstance(value, int) and not isinstance(value, bool):
            tensor = run.interp.tensor_at(value)
            value = Pointer(tensor, tensor.dtype) if tensor is not None else value
        if isinstance(value, Tensor):
            value = Pointer(value, value.dtype)
        if isinstance(value, Pointer):
            return value.seen_as(element(run, ref, env) or value.dtype)
        return value
    dtype = element(run, ref, env)
    if dtype is not None and isinstance(value, CStruct):
        value = run.converted(ref, value, env)
    return 0 if equality.is_success(value) and dtype in dtypes.INTS else cpp_numbers.held(value, dtype)


def bindable(value: Value) -> Value:
    """Converts a `Type`, deduced from an argument, to the form that a written type has, so that equal types are the
    same template argument."""
    if not isinstance(value, Type) or isinstance(value.base, int):
        return value
    if not value.pointers and value.lanes == 1 and value.base in dtypes.BITS:
        return DType(value.base)
    return _spelled(value.base, value.lanes, value.pointers)


@lru_cache(maxsize=512)
def _spelled(base: str, lanes: int, pointers: int) -> TypeValue:
    return TypeValue(ir.TypeRef(dtypes.cpp_name(base, lanes), (), (), pointers=pointers), Env())


def is_of(run: Cpp, value: Value, wanted: ir.Expr) -> bool | None:
    """Whether a value has exactly the type `wanted`; None where that is not known."""
    value = value.get() if isinstance(value, Slot) else value
    own = run.types.key(run.types.type_of(value))
    kind = run.types.key(TypeValue(wanted, Env())) if isinstance(wanted, ir.TypeRef) else None
    return None if own is None or kind is None else own == kind
