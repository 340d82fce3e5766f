"""C++ types on the host side: what names and aliases mean, what class templates make, casts."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import CppType, DType, Env, TypeValue, Value
from kbh_lint.cpp import templates, traits
from kbh_lint.cpp.domain import Type
from kbh_lint.cpp.members import Member
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.values import equality
from kbh_lint.host.values.cpp_objects import Pointer, Slot
from kbh_lint.host.values.tensors import Tensor

if TYPE_CHECKING:
    from kbh_lint.host.cpp.cpp import Cpp

MAX_LOOP = 256  # iterations of a loop that works on tensors
MAX_COUNTED = 1024  # iterations of one that only computes
COUNTS = frozenset({"int", "int32_t", "int64_t", "long", "size_t", "long long", "unsigned", "uint32_t"})
MAX_DEPTH = 24


def argument(run: Cpp, node: ir.Expr, env: Env) -> Any:
    """A template argument: a number, an element type, or a type with its scope."""
    if isinstance(node, (ir.TypeRef, ir.Name)):
        name = node.name if isinstance(node, ir.TypeRef) else node.id
        plain = isinstance(node, ir.Name) or not (node.args or node.member)
        if isinstance(node, ir.TypeRef) and (node.pointers or node.dims):
            return TypeValue(node, env)
        if name == "decltype" and isinstance(node, ir.TypeRef) and not node.member:
            kind = _of_value(run, node, env)
            if kind is not None:
                return kind
        if plain:
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
            if scalar is not None:
                return DType(scalar)
            if isinstance(node, ir.TypeRef):
                return TypeValue(node, env)
        elif isinstance(node, ir.TypeRef):
            value = run.eval(node, env)
            return value if isinstance(value, (int, float, bool)) else TypeValue(node, env)
    value = run.eval(node, env)
    return value.get() if isinstance(value, Slot) else value


def resolve(run: Cpp, ref: ir.TypeRef, env: Env, depth: int = 0) -> tuple[ir.TypeRef, Env]:
    """Follow aliases (`using`, template parameters, members of template structs) to the type that is meant."""
    while depth < MAX_DEPTH:
        depth += 1
        try:
            found = env.lookup(ref.name)
        except KeyError:
            kind = _of_value(run, ref, env)
            if isinstance(kind, TypeValue):
                member, pointers = (*kind.ref.member, *ref.member), kind.ref.pointers or ref.pointers
                ref, env = replace(kind.ref, member=member, pointers=pointers), kind.env
                continue
            if traits.is_choice(ref):
                side = traits.choice(run.types, ref, env)
                if isinstance(side, DType):
                    side = TypeValue(ir.TypeRef(dtypes.cpp_name(side.name, 1), (), ref.loc), env)
                if not isinstance(side, TypeValue):
                    return ref, env
                member, pointers = (*side.ref.member, *traits.of_choice(ref)), side.ref.pointers + ref.pointers
                ref, env = replace(side.ref, member=member, pointers=pointers), side.env
                continue
            inside = run.types.classes.scoped(ref.name, ref.loc, env) if "::" in ref.name else None
            if inside is None or not isinstance(inside.node, (ir.Using, ir.ClassDef)):
                return ref, env
            ref, env = _within(ref, inside, env)
            continue
        if isinstance(found, TypeValue) and ref.args:  # a parameter that is a class template
            whole = found.env.get(found.ref.name)
            if found.ref.args or found.ref.member or not isinstance(whole, CppType):
                return ref, env
            env = Env({ref.name: whole}, env)
            continue
        if isinstance(found, TypeValue):
            member = (*found.ref.member, *ref.member)
            ref, env = (
                ir.TypeRef(found.ref.name, found.ref.args, found.ref.loc, member, found.ref.pointers or ref.pointers),
                found.env,
            )
            continue
        if not isinstance(found, CppType):
            return ref, env
        if isinstance(found.node, ir.Using):
            if found.node.type is None:
                return ref, env
            own = templates.bind(run.types, found.node.template, ref.args, env, found.env, {})
            inner = Env(own, found.env) if own else found.env
            target = found.node.type
            member = (*target.member, *ref.member)
            if target.name == ref.name and found.env is env:
                return ref, env
            ref, env = ir.TypeRef(target.name, target.args, target.loc, member, target.pointers or ref.pointers), inner
            continue
        if not ref.member:
            return ref, env
        step = _inside(run, found, ref, env)
        if step is None or step[0] is ref:
            return ref, env if step is None else step[1]
        ref, env = step
    return ref, env


def _inside(run: Cpp, found: CppType, ref: ir.TypeRef, env: Env) -> tuple[ir.TypeRef, Env] | None:
    """One step into a class: the type that its member is, in the scope of the class that declares it. The reference
    itself in the scope of the class where the member is no type; None where there is no class."""
    classes = run.types.classes
    made = classes.defined(*classes.instance(found, ref.args, env))
    if made is None:
        return None
    first, rest = ref.member[0], ref.member[1:]
    member = made.members.get(first.name if isinstance(first, ir.TemplateName) else first)
    if member is None or not isinstance(member.node, (ir.Using, ir.ClassDef)):
        return ref, made.env
    args = first.args if isinstance(first, ir.TemplateName) else ()
    return _within(ir.TypeRef(first, args, ref.loc, rest, ref.pointers), member, env)


def _within(ref: ir.TypeRef, member: Member, env: Env) -> tuple[ir.TypeRef, Env]:
    """A member of a class as a type of its scope; its template arguments are those of the scope where it is named."""
    name, own = member.node.name, member.owner.env
    scope = Env({name: own.vars[name]}, env) if ref.args else own
    return ir.TypeRef(name, ref.args, ref.loc, ref.member, ref.pointers), scope


def _of_value(run: Cpp, ref: ir.TypeRef, env: Env) -> Any:
    """`decltype(x)`: the type of a variable or field; None for other types and what is not known."""
    if ref.name != "decltype" or len(ref.args) != 1 or not isinstance(ref.args[0], (ir.Name, ir.Attr)):
        return None
    value = run.eval(ref.args[0], env)
    value = value.get() if isinstance(value, Slot) else value
    kind = run.types.of_argument(ref.args[0], value, env)
    return bindable(kind)


def static_member(run: Cpp, ref: ir.TypeRef, env: Env) -> Any:
    """`Traits<T>::value`: a constant of a class or of its bases; None for what is none."""
    member = run.types.classes.member(TypeValue(ref.inside(()), env), ref.member, env)
    return constant(run, member) if member is not None and member.constant else None


def constant(run: Cpp, member: Member) -> Any:
    """The value of a static constant or an enumerator of a class."""
    assert isinstance(member.node, ir.Decl)
    return run.initial(member.node, member.owner.env)


def element(run: Cpp, ref: ir.TypeRef, env: Env) -> str | None:
    """The element type a C++ type stands for; `void` and structs have none."""
    direct = dtypes.from_cpp(ref.name)
    if direct is not None and not ref.member:
        return direct
    vector = dtypes.vector_from_cpp(ref.name)
    if vector is not None:
        return vector[0]
    try:
        value = env.lookup(ref.name)
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


def cast(run: Cpp, ref: ir.TypeRef, value: Value, env: Env) -> Any:
    """A cast on the host: pointers change the type they are seen as, integers become pointers to what lives there."""
    if isinstance(value, Slot) and not ref.pointers:
        value = value.get()
    if ref.pointers or ref.name in ("CUdeviceptr",):
        if isinstance(value, int) and not isinstance(value, bool):
            tensor = run.interp.tensor_at(value)
            value = Pointer(tensor, tensor.dtype) if tensor is not None else value
        if isinstance(value, Tensor):
            value = Pointer(value, value.dtype)
        if isinstance(value, Pointer):
            return value.seen_as(element(run, ref, env) or value.dtype)
        return value
    dtype = element(run, ref, env)
    return 0 if equality.is_success(value) and dtype in dtypes.INTS else cpp_numbers.held(value, dtype)


def bindable(value: Value) -> Any:
    """A type that only an argument told, as one that is written: equal ones are the same."""
    if not isinstance(value, Type) or isinstance(value.base, int):
        return value
    if not value.pointers and value.lanes == 1 and value.base in dtypes.BITS:
        return DType(value.base)
    return _spelled(value.base, value.lanes, value.pointers)


@lru_cache(maxsize=512)
def _spelled(base: str, lanes: int, pointers: int) -> TypeValue:
    return TypeValue(ir.TypeRef(dtypes.cpp_name(base, lanes), (), (), pointers=pointers), Env())
