"""C++ types on the host side: aliases, casts, initial values, and what a CUTLASS type multiplies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kbh_lint import dtypes, ir
from kbh_lint.host import cpp_calls, cpp_classes, cpp_numbers, cpp_std
from kbh_lint.host.values import bounds, equality
from kbh_lint.host.values.objects import LibObject, Pointer, Slot
from kbh_lint.host.values.tensors import Tensor, Unknown
from kbh_lint.values import CppType, DType, Env, TypeValue

MAX_LOOP = 256  # rounds of a loop that works on tensors
MAX_COUNTED = 1024  # rounds of one that only computes
COUNTS = frozenset({"int", "int32_t", "int64_t", "long", "size_t", "long long", "unsigned", "uint32_t"})
MAX_DEPTH = 24
MAX_LEAVES = 4000


def argument(run: Any, node: ir.Expr, env: Env) -> Any:
    """A template argument: a number, an element type, or a type with its scope."""
    if isinstance(node, (ir.TypeRef, ir.Name)):
        name = node.name if isinstance(node, ir.TypeRef) else node.id
        plain = isinstance(node, ir.Name) or not (node.args or node.member)
        if plain:
            try:
                found = env.lookup(name)
            except KeyError:
                found = None
            if isinstance(found, (int, float, bool, DType, TypeValue)):
                return found
            if isinstance(found, CppType):
                ref = node if isinstance(node, ir.TypeRef) else ir.TypeRef(name, (), node.loc)
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


def resolve(run: Any, ref: ir.TypeRef, env: Env, depth: int = 0) -> tuple[ir.TypeRef, Env]:
    """Follow aliases (`using`, template parameters, members of template structs) to the type that is meant."""
    while depth < MAX_DEPTH:
        depth += 1
        try:
            found = env.lookup(ref.name)
        except KeyError:
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
            inner = Env(bound_parameters(run, found.node.template, ref.args, env), found.env)
            target = found.node.type
            member = (*target.member, *ref.member)
            if target.name == ref.name and found.env is env:
                return ref, env
            ref, env = ir.TypeRef(target.name, target.args, target.loc, member, target.pointers or ref.pointers), inner
            continue
        if not ref.member:
            return ref, env
        found, args = specialised(run, found, ref.args, env)
        assert isinstance(found.node, ir.ClassDef)
        inner = Env(bound_parameters(run, found.node.template, args, env), found.env)
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


def spelled(run: Any, node: ir.Expr, env: Env) -> Any:
    """A template argument as something that can be compared."""
    value = argument(run, node, env)
    return value.ref.name if isinstance(value, TypeValue) else value


def specialised(run: Any, found: CppType, args: tuple[ir.Expr, ...], env: Env) -> tuple[CppType, tuple[ir.Expr, ...]]:
    """The specialisation of a class template that arguments pick, with the arguments for its own parameters; the
    template itself and all arguments when there is none."""
    given = [*args, *(p.default for p in found.node.template[len(args) :] if p.default is not None)]
    for kind in found.special:
        assert isinstance(kind.node, ir.ClassDef)
        own = {param.name: param.default for param in kind.node.template}
        for pattern, arg in zip(kind.node.specialization, given, strict=False):
            name = getattr(pattern, "name", getattr(pattern, "id", ""))
            if name in own and not getattr(pattern, "args", ()) and not getattr(pattern, "pointers", 0):
                own[name] = arg
            elif spelled(run, pattern, kind.env) != spelled(run, arg, env):
                break
        else:
            return kind, tuple(arg for arg in own.values() if arg is not None)
    return found, args


def bound_parameters(
    run: Any, params: tuple[ir.TemplateParam, ...], args: tuple[ir.Expr, ...], env: Env
) -> dict[str, Any]:
    """Template parameters by name, for the arguments that are given and the defaults of the others."""
    out: dict[str, Any] = {}
    for i, param in enumerate(params):
        if i < len(args):
            out[param.name] = argument(run, args[i], env)
        elif param.default is not None:
            out[param.name] = argument(run, param.default, Env(dict(out), env))
    return out


def static_member(run: Any, ref: ir.TypeRef, env: Env) -> Any:
    """`Traits<T>::value`: a constant of a struct."""
    target, inner = resolve(run, ref, env)
    name = (target.member or ref.member)[-1]
    found = inner.vars.get(name)
    if isinstance(found, ir.Decl) and found.init is not None:
        init = found.init.items[0] if isinstance(found.init, ir.Seq) and found.init.items else found.init
        return run.eval(init, inner)
    return found if isinstance(found, (int, float, bool)) else None


def element(run: Any, ref: ir.TypeRef, env: Env) -> str | None:
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


def cast(run: Any, ref: ir.TypeRef, value: Any, env: Env) -> Any:
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
    return 0 if equality.is_success(value) and dtype in dtypes.INTS else cpp_numbers.wrapped(value, dtype)


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


def cutlass(run: Any, ref: ir.TypeRef, env: Env) -> CutlassType | None:
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


def _leaf(run: Any, node: ir.Expr, env: Env) -> str:
    value = argument(run, node, env)
    if isinstance(value, DType):
        return value.name
    if isinstance(value, TypeValue):
        target, scope = resolve(run, value.ref, value.env)
        if target.name.rpartition("::")[2] in ("tuple", "mx_float8_t", "nv_float4_t") and target.args:
            return _leaf(run, target.args[0], scope)
        return element(run, target, scope) or "?"
    return "?"


def _flatten(run: Any, ref: ir.TypeRef, env: Env, out: list[tuple[ir.TypeRef, Env, ir.Loc]], depth: int) -> None:
    if depth > MAX_DEPTH or len(out) > MAX_LEAVES:
        return
    run.interp.burn(2)
    target, scope = resolve(run, ref, env)
    out.append((target, scope, target.loc))
    for arg in target.args:
        if isinstance(arg, ir.TypeRef):
            _flatten(run, arg, scope, out, depth + 1)
        elif isinstance(arg, ir.Name):
            _flatten(run, ir.TypeRef(arg.id, (), arg.loc), scope, out, depth + 1)


def initial(run: Any, node: ir.Decl, env: Env) -> Any:
    """The value of a declared variable."""
    init = node.init
    ref = node.type
    if ref is not None and init is not None and not isinstance(init, ir.Seq):
        value = run.eval(init, env)
        if isinstance(value, Slot) and not ref.pointers and not ref.reference and ref.name != "auto":
            value = value.get()
        if ref.pointers and isinstance(value, (int, Tensor, Pointer)):
            return cast(run, ref, value, env)
        dtype = "" if ref.pointers else element(run, ref, env) or "f32"
        if dtype in dtypes.INTS and isinstance(value, float):
            return int(value)
        return cpp_numbers.wrapped(value, dtype)
    items = [run.eval(i, env) for i in init.items] if isinstance(init, ir.Seq) else []
    if ref is None:
        return items[0] if items else Unknown()
    if ref.name.rpartition("::")[2] == "vector" and init is not None:
        if isinstance(init, ir.Seq) and init.kind == "init" and not any(isinstance(item, list) for item in items):
            return items
        if len(items) == 1 and isinstance(items[0], int) and 0 <= items[0] <= bounds.MAX_WIDTH:
            return [0] * items[0]
    if ref.dims:
        return items or [Unknown() for _ in range(16)]
    return construct(run, ref, items, env, node.loc)


def construct(run: Any, ref: ir.TypeRef, items: list[Any], env: Env, loc: ir.Loc | None) -> Any:
    """An object of a C++ type from constructor arguments."""
    short = ref.name.rpartition("::")[2]
    if ref.pointers:
        return items[0] if items else None
    if short in ("thread", "jthread"):
        return cpp_std.thread(run, items, loc)
    if short == "optional":
        return items[0] if items else None
    if "set" in short or "map" in short:
        made = cpp_std.keyed(short, items)
        if made is not None:
            return made
    if short in ("vector", "initializer_list", "array"):
        return (
            items[0]
            if items and isinstance(items[0], list)
            else (
                [items[1] if len(items) > 1 else 0] * items[0]
                if items
                and isinstance(items[0], int)
                and ref.args
                and items[0] < 4096
                and len(items) <= 2
                and short == "vector"
                and len(items) == 2
                else list(items)
            )
        )
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
        return items[0] if items else 0
    target, scope = resolve(run, ref, env)
    try:
        found = scope.lookup(target.name)
    except KeyError:
        found = None
    if isinstance(found, CppType) and isinstance(found.node, ir.ClassDef) and not target.member:
        found, args = specialised(run, found, target.args, scope)
        return cpp_classes.struct(run, found, replace(target, args=args), items, scope)
    kind = cutlass(run, target, scope) if not target.member or target.member[-1] != "Arguments" else None
    if kind is not None:
        return LibObject("cutlass", {"kind": kind, "pointers": cpp_calls.pointers(items), "__name__": target.name})
    return LibObject(f"cpp:{target.name}", {"items": list(items), "pointers": cpp_calls.pointers(items)}, tuple(items))
