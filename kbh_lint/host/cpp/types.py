"""C++ types on the host side: aliases, casts, initial values, and what a CUTLASS type multiplies."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import CppType, DType, Env, TypeValue
from kbh_lint.cpp import conversions, hierarchy, templates
from kbh_lint.host.cpp import calls as cpp_calls
from kbh_lint.host.cpp import classes as cpp_classes
from kbh_lint.host.cpp import std as cpp_std
from kbh_lint.host.cpp import templates as cpp_templates
from kbh_lint.host.values import bounds, equality
from kbh_lint.host.values.objects import LibObject, Pointer, Slot
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.cpp import Cpp

MAX_LOOP = 256  # rounds of a loop that works on tensors
MAX_COUNTED = 1024  # rounds of one that only computes
COUNTS = frozenset({"int", "int32_t", "int64_t", "long", "size_t", "long long", "unsigned", "uint32_t"})
MAX_DEPTH = 24
MAX_ELEMENTS = 256  # of an array that is laid out
CONTAINERS = frozenset({"vector", "initializer_list", "array"})
MAX_LEAVES = 4000


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
            if _is_choice(ref):
                side = _chosen(run, ref, env)
                if side is None:
                    return ref, env
                ref = side
                continue
            head, _, tail = ref.name.partition("::")
            if tail and not ref.args:
                try:
                    owner = env.lookup(head)
                except KeyError:
                    return ref, env
                if isinstance(owner, (CppType, TypeValue)):
                    ref = ir.TypeRef(head, (), ref.loc, (*tail.split("::"), *ref.member), ref.pointers)
                    continue
            return ref, env
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
            inner = Env(own, found.env)
            target = found.node.type
            member = (*target.member, *ref.member)
            if target.name == ref.name and found.env is env:
                return ref, env
            ref, env = ir.TypeRef(target.name, target.args, target.loc, member, target.pointers or ref.pointers), inner
            continue
        if not ref.member:
            return ref, env
        found, own = cpp_templates.instance(run, found, ref.args, env)
        assert isinstance(found.node, ir.ClassDef)
        inner = Env(own, found.env)
        inside = next((s for s in found.node.body if isinstance(s, ir.Using) and s.name == ref.member[0]), None)
        for stmt in found.node.body:
            if isinstance(stmt, ir.Using) and stmt.name:
                inner.vars[stmt.name] = CppType(stmt, inner)
            elif isinstance(stmt, ir.Decl) and stmt.init is not None and stmt.storage & {"static", "constexpr"}:
                inner.vars.setdefault(stmt.name, stmt)
        if inside is None or inside.type is None:
            return ref, inner
        target = inside.type
        if target.name == ref.name and not target.args:
            return target, inner
        ref, env = (
            ir.TypeRef(target.name, target.args, target.loc, (*target.member, *ref.member[1:]), target.pointers),
            inner,
        )
    return ref, env


def _of_value(run: Cpp, ref: ir.TypeRef, env: Env) -> Any:
    """`decltype(x)`: the type of a variable or field; None for other types and what is not known."""
    if ref.name != "decltype" or len(ref.args) != 1 or not isinstance(ref.args[0], (ir.Name, ir.Attr)):
        return None
    value = run.eval(ref.args[0], env)
    value = value.get() if isinstance(value, Slot) else value
    kind = run.types.of_argument(ref.args[0], value, env)
    return cpp_templates.bindable(kind)


def _is_choice(ref: ir.TypeRef) -> bool:
    """Whether a type is the standard library's choice of two: `std::conditional_t<B, T, F>` and its kin.

    CUTLASS and CuTe have their own of the same name and meaning.
    """
    short = ref.name.rpartition("::")[2]
    return len(ref.args) == 3 and (short == "conditional_t" or short == "conditional" and ref.member[:1] == ("type",))


def _chosen(run: Cpp, ref: ir.TypeRef, env: Env) -> ir.TypeRef | None:
    """The type that a choice comes to; None when its condition is not known."""
    known = argument(run, ref.args[0], env)
    if not isinstance(known, int):
        return None
    side = ref.args[1 if known else 2]
    if isinstance(side, ir.Name):
        side = ir.TypeRef(side.id, (), side.loc)
    if not isinstance(side, ir.TypeRef):
        return None
    asked = ref.member[1:] if ref.name.endswith("conditional") else ref.member
    return replace(side, member=(*side.member, *asked), pointers=side.pointers + ref.pointers)


def static_member(run: Cpp, ref: ir.TypeRef, env: Env) -> Any:
    """`Traits<T>::value`: a constant of a struct or of its bases."""
    hidden, value, name = _own_member(run, ref, env)
    if hidden:
        return value
    for base in hierarchy.ancestors(run.types, TypeValue(replace(ref, member=ref.member[:-1]), env)):
        _, value, _ = _own_member(run, replace(base.ref, member=(*base.ref.member, name)), base.env)
        if value is not None:
            return value
    return None


def _own_member(run: Cpp, ref: ir.TypeRef, env: Env) -> tuple[bool, Any, str]:
    """Whether a struct itself has the member, its value if that is a constant, and its name."""
    target, inner = resolve(run, ref, env)
    name = (target.member or ref.member)[-1]
    found = inner.vars.get(name)
    if isinstance(found, ir.Decl) and found.init is not None:
        init = found.init.items[0] if isinstance(found.init, ir.Seq) and found.init.items else found.init
        return True, run.eval(init, inner), name
    return found is not None, found if isinstance(found, (int, float, bool)) else None, name


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
    if found is None and target.name in scope.vars and isinstance(scope.vars[target.name], DType):
        return str(scope.vars[target.name].name)  # a template parameter behind an alias
    return found or (dtypes.vector_from_cpp(target.name) or (None, 0))[0]


def cast(run: Cpp, ref: ir.TypeRef, value: Any, env: Env) -> Any:
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
    if isinstance(value, float) and dtype in dtypes.INTS:
        return int(value)
    return 0 if equality.is_success(value) and dtype in dtypes.INTS else conversions.held(value, dtype)


@dataclass(frozen=True, slots=True)
class CutlassType:
    """What a CUTLASS device type multiplies, and the architecture its collectives are written for."""

    a: str
    b: str
    accumulator: str
    arch: int | None
    loc: ir.Loc
    arch_loc: ir.Loc | None
    element_loc: ir.Loc | None


def cutlass(run: Cpp, ref: ir.TypeRef, env: Env) -> CutlassType | None:
    """The product inside a CUTLASS device-level type; None when it is not one."""
    seen: list[tuple[ir.TypeRef, Env, ir.Loc]] = []
    _flatten(run, ref, env, seen, 0)
    names = [r.name for r, _, _ in seen]
    if not any("cutlass" in n or "Gemm" in n for n in names):
        return None
    a = b = acc = "?"
    where: ir.Loc | None = None
    arch: int | None = None
    arch_loc: ir.Loc | None = None
    for r, scope, loc in seen:
        short = r.name.rpartition("::")[2]
        if short == "CollectiveBuilder" and len(r.args) >= 7 and "epilogue" not in r.name:
            a, b, acc = (_leaf(run, r.args[i], scope) for i in (2, 5, 8 if len(r.args) > 8 else 6))
            where = loc
        elif (
            short
            in (
                "Gemm",
                "GemmUniversal",
                "GemmBatched",
                "GemmSplitKParallel",
                "GemmArray",
                "GemmGrouped",
                "DefaultGemm",
                "DefaultGemmUniversal",
                "GemmWithBroadcast",
                "GemmUniversalWithBroadcast",
                "DefaultGemmWithVisitor",
                "GemmSparse",
                "DefaultGemmGrouped",
            )
            and len(r.args) > 5
            and a == "?"
        ):
            step = 3 if short.startswith("Default") else 2
            a, b, acc = _leaf(run, r.args[0], scope), _leaf(run, r.args[step + (1 if step == 3 else 0)], scope), "f32"
            where = loc
        if short.startswith("Sm") and short[2:].isdigit() and "arch" in r.name:
            number = int(short[2:])
            if arch is None or number < arch:
                arch, arch_loc = number, r.loc
    return CutlassType(a, b, acc, arch, ref.loc, arch_loc, where) if a != "?" or arch is not None else None


def _leaf(run: Cpp, node: ir.Expr, env: Env) -> str:
    value = argument(run, node, env)
    if isinstance(value, DType):
        return value.name
    if isinstance(value, TypeValue):
        target, scope = resolve(run, value.ref, value.env)
        if target.name.rpartition("::")[2] in ("tuple", "mx_float8_t", "nv_float4_t") and target.args:
            return _leaf(run, target.args[0], scope)
        return element(run, target, scope) or "?"
    return "?"


def _flatten(run: Cpp, ref: ir.TypeRef, env: Env, out: list[tuple[ir.TypeRef, Env, ir.Loc]], depth: int) -> None:
    if depth > MAX_DEPTH or len(out) > MAX_LEAVES:
        return
    run.interp.burn(2)
    target, scope = resolve(run, ref, env)
    out.append((target, scope, target.loc))
    if _is_choice(target):
        return  # its condition is not known: neither side is what the type is made of
    for arg in target.args:
        if isinstance(arg, ir.TypeRef):
            _flatten(run, arg, scope, out, depth + 1)
        elif isinstance(arg, ir.Name):
            _flatten(run, ir.TypeRef(arg.id, (), arg.loc), scope, out, depth + 1)


def converted(run: Cpp, ref: ir.TypeRef, value: Any, env: Env) -> Any:
    """A value as a variable, parameter, field or result of a type holds it: numbers convert, braces make an object,
    objects convert by their operators, and numbers by a constructor. Itself where the type says nothing."""
    number = isinstance(value, (bool, int, float))
    if ref.pointers or not (number or isinstance(value, (list, LibObject))):
        return value
    if isinstance(value, LibObject) and not value.path.startswith("struct:"):
        return value
    dtype = dtypes.from_cpp(ref.name) if not ref.args and not ref.member else None
    if dtype is None or isinstance(value, list):
        kind = None if ref.name in ("auto", "void", "") else _class(run, ref, env)
        if kind is not None and not isinstance(value, LibObject):
            return construct(
                run, replace(ref, reference=False), value if isinstance(value, list) else [value], env, None
            )
        dtype = element(run, ref, env) if kind is None and not isinstance(value, list) else None
    if isinstance(value, LibObject) and dtype is not None:
        made = cpp_classes.conversion(run, value, dtype)
        return value if made is NotImplemented else conversions.held(made, dtype)
    return conversions.held(value, dtype) if number else value


def _class(run: Cpp, ref: ir.TypeRef, env: Env) -> CppType | None:
    """The class of the text that a type is."""
    target, scope = resolve(run, ref, env)
    try:
        found = scope.lookup(target.name)
    except KeyError:
        return None
    return found if isinstance(found, CppType) and isinstance(found.node, ir.ClassDef) and not target.member else None


def initial(run: Cpp, node: ir.Decl, env: Env) -> Any:
    """The value of a declared variable."""
    init = node.init
    ref = node.type
    if ref is not None and init is not None and not isinstance(init, ir.Seq):
        value = run.eval(init, env)
        if isinstance(value, Slot) and not ref.pointers and not ref.reference and ref.name != "auto":
            value = value.get()
        if ref.pointers and isinstance(value, (int, Tensor, Pointer)):
            return cast(run, ref, value, env)
        return value if ref.reference or ref.dims else converted(run, ref, value, env)
    items = [run.eval(i, env) for i in init.items] if isinstance(init, ir.Seq) else []
    if ref is None:
        return items[0] if items else Unknown()
    if ref.dims:
        return _array(run, ref, items, init is not None, env)
    named = any(isinstance(i, ir.AssignE) for i in init.items) if isinstance(init, ir.Seq) else False
    if named and isinstance(init, ir.Seq):  # `S s{.b = 4}`
        made = construct(run, ref, [], env, node.loc)
        for item, value in zip(init.items, items, strict=True):
            if isinstance(made, LibObject) and isinstance(item, ir.AssignE) and isinstance(item.target, ir.Name):
                made.attrs[item.target.id] = value
        return made
    braces = isinstance(init, ir.Seq) and init.kind == "init"
    return construct(run, ref, items, env, node.loc, braces=braces)


def _array(run: Cpp, ref: ir.TypeRef, items: list[Any], given: bool, env: Env) -> Any:
    """An array from the values in braces; what they leave out is zero."""
    size = run.eval(ref.dims[0], env)
    one = replace(ref, dims=ref.dims[1:])
    kind = None if one.dims else _class(run, one, env)
    if kind is not None and (items or isinstance(size, int) and 0 < size <= MAX_ELEMENTS):
        rows = [item if isinstance(item, list) else [item] for item in items if not isinstance(item, LibObject)]
        made = [construct(run, one, row, env, None) for row in rows] if len(rows) == len(items) else list(items)
        more = size - len(made) if isinstance(size, int) and size <= MAX_ELEMENTS else 0
        return made + [construct(run, one, [], env, None) for _ in range(more)]
    if given and not one.dims and isinstance(size, int) and len(items) < size <= MAX_ELEMENTS:
        if element(run, one, env) is not None and not ref.pointers:
            items = items + [0] * (size - len(items))
    return items or [Unknown() for _ in range(16)]


def _fresh(run: Cpp, ref: ir.TypeRef, env: Env) -> Any:
    """What `map[key]` makes of a value type: zero, an object without arguments, a tensor that is not defined yet."""
    made = construct(run, ref, [], env, None)
    opaque = isinstance(made, LibObject) and not made.path.startswith("struct:")
    return Unknown((), "a missing entry") if opaque else made


def construct(
    run: Cpp, ref: ir.TypeRef, items: list[Any], env: Env, loc: ir.Loc | None, *, braces: bool = False
) -> Any:
    """An object of a C++ type from constructor arguments, or from what stands in `braces`."""
    short = ref.name.rpartition("::")[2]
    if ref.pointers:
        return items[0] if items else None
    if short in ("thread", "jthread"):
        return cpp_std.thread(run, items, loc)
    if short in ("optional", "unique_ptr", "shared_ptr", "intrusive_ptr"):
        return items[0] if items else None
    if "set" in short or "map" in short:
        made = cpp_std.keyed(short, items)
        if isinstance(made, cpp_std.Entries) and len(ref.args) > 1 and isinstance(ref.args[1], ir.TypeRef):
            made.fresh = partial(_fresh, run, ref.args[1], env)
        if made is not None:
            return made
    if short in CONTAINERS:
        if len(items) == 1 and isinstance(items[0], list):
            return items[0]
        count = items[0] if items and not braces and short == "vector" and type(items[0]) is int else -1
        if 0 <= count <= bounds.MAX_WIDTH and len(items) <= 2:
            return [items[1] if len(items) > 1 else 0] * count
        return list(items)
    if short in ("Tensor",):
        return items[0] if items else None
    if short == "dim3":
        return LibObject(
            "dim3",
            {
                "x": items[0] if items else 1,
                "y": items[1] if len(items) > 1 else 1,
                "z": items[2] if len(items) > 2 else 1,
            },
        )
    scalar = element(run, ref, env)
    if scalar is not None:
        return converted(run, ref, items[0], env) if items else 0
    target, scope = resolve(run, ref, env)
    try:
        found = scope.lookup(target.name)
    except KeyError:
        found = None
    if isinstance(found, CppType) and isinstance(found.node, ir.ClassDef) and not target.member:
        return cpp_classes.struct(run, found, target, items, scope)
    kind = cutlass(run, target, scope) if not target.member or target.member[-1] != "Arguments" else None
    if kind is not None:
        return LibObject("cutlass", {"kind": kind, "pointers": cpp_calls.pointers(items), "__name__": target.name})
    return LibObject(f"cpp:{target.name}", {"items": list(items), "pointers": cpp_calls.pointers(items)}, tuple(items))
