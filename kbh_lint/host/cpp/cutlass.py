"""What a CUTLASS type of C++ host code multiplies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import DType, Env, TypeValue
from kbh_lint.cpp import traits
from kbh_lint.host.cpp import types as cpp_types
from kbh_lint.host.values.tensors import CutlassType

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

MAX_LEAVES = 4000


def cutlass(run: Cpp, ref: ir.TypeRef, env: Env) -> CutlassType | None:
    """Returns the matrix product that a CUTLASS type describes; None when it describes none. Types at file scope are
    cached, since each object of a type asks."""
    if not ref.args and not ref.name.rpartition("::")[2].startswith("Sm"):
        return None  # neither an architecture nor made of types
    if not env.outermost:
        return _product(run, ref, env)
    key = (id(env), ref.loc, ref.name, ref.member)
    known = run.products.get(key)
    if known is None:
        known = run.products[key] = env, _product(run, ref, env)
    return known[1]


def _product(run: Cpp, ref: ir.TypeRef, env: Env) -> CutlassType | None:
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
    value = cpp_types.argument(run, node, env)
    if isinstance(value, DType):
        return value.name
    if isinstance(value, TypeValue):
        target, scope = cpp_types.resolve(run, value.ref, value.env)
        if target.name.rpartition("::")[2] in ("tuple", "mx_float8_t", "nv_float4_t") and target.args:
            return _leaf(run, target.args[0], scope)
        return cpp_types.element(run, target, scope) or "?"
    return "?"


def _flatten(run: Cpp, ref: ir.TypeRef, env: Env, out: list[tuple[ir.TypeRef, Env, ir.Loc]], depth: int) -> None:
    if depth > cpp_types.MAX_DEPTH or len(out) > MAX_LEAVES:
        return
    run.interp.burn(2)
    target, scope = cpp_types.resolve(run, ref, env)
    out.append((target, scope, target.loc))
    if traits.is_choice(target):
        return  # its condition is not known: neither side is what the type is made of
    for arg in target.args:
        if isinstance(arg, ir.TypeRef):
            _flatten(run, arg, scope, out, depth + 1)
        elif isinstance(arg, ir.Name):
            _flatten(run, ir.TypeRef(arg.id, (), arg.loc), scope, out, depth + 1)
