"""The scope that the C++ text of a submission makes."""

from __future__ import annotations

from typing import Any

from kbh_lint import dtypes, ir, values

_MAX_BITS = 256
_SIZES = {
    "bool": 1, "char": 1, "signed char": 1, "unsigned char": 1, "int8_t": 1, "uint8_t": 1, "short": 2,
    "unsigned short": 2, "int16_t": 2, "uint16_t": 2, "int": 4, "unsigned": 4, "unsigned int": 4, "int32_t": 4,
    "uint32_t": 4, "float": 4, "long": 8, "unsigned long": 8, "long long": 8, "unsigned long long": 8, "int64_t": 8,
    "uint64_t": 8, "size_t": 8, "double": 8, "__half": 2, "half": 2, "__nv_bfloat16": 2, "nv_bfloat16": 2,
    "__nv_fp8_e4m3": 1, "__nv_fp8_e5m2": 1, "float2": 8, "float4": 16, "int2": 8, "int4": 16, "uint2": 8, "uint4": 16,
    "__half2": 4, "half2": 4, "__nv_bfloat162": 4,
}  # fmt: skip


def module_env(module: ir.Module) -> values.Env:
    """C++ names of a module, qualified and not: Overloads, CppType, folded integer constants, Decl nodes."""
    env = values.Env()
    _add(env, module.body, module.unit, "", env)
    return env


def _add(env: values.Env, body: tuple[ir.Stmt, ...], unit: Any, owner: str, scope: values.Env) -> None:
    for node in body:
        prefix = owner or (unit.namespace_at(node.loc[1]) if hasattr(unit, "namespace_at") else "")
        if isinstance(node, ir.FuncDef):
            _bind_function(env, node, prefix, bool(owner))
        elif isinstance(node, ir.ClassDef):
            kind = values.CppType(node, env)
            primary = env.vars.get(node.name) if node.specialization else None
            if isinstance(primary, values.CppType):
                primary.special.append(kind)
            if not node.specialization:
                _bind(env, node.name, prefix, kind, bool(owner))
            if node.name and not node.template and not node.specialization:
                _add(env, node.body, unit, f"{prefix}::{node.name}" if prefix else node.name, scope)
        elif isinstance(node, ir.Using):
            if node.namespace is None and node.name:
                _bind(env, node.name, prefix, values.CppType(node, env), bool(owner))
        elif isinstance(node, ir.Decl) and node.name:
            if owner and not (node.storage & {"static", "enum"}):
                continue
            value = constant(node, env, prefix)
            _bind(env, node.name, prefix, value, bool(owner))
            dt = dtypes.from_cpp(node.type.name) if type(value) is int and node.type is not None else None
            if dt in dtypes.INTS and dt != "i32":
                env.types = {**(env.types or {}), node.name: dt, **({f"{prefix}::{node.name}": dt} if prefix else {})}
        elif isinstance(node, (ir.Opaque, ir.Block)):
            inner = node.children if isinstance(node, ir.Opaque) else node.body
            kept = tuple(item for item in inner if isinstance(item, (ir.FuncDef, ir.ClassDef, ir.Decl, ir.Using)))
            _add(env, kept, unit, owner, scope)


def _bind(env: values.Env, name: str, prefix: str, value: Any, member: bool) -> None:
    if prefix:
        env.vars[f"{prefix}::{name}"] = value
    if not member or not prefix:
        env.vars.setdefault(name, value)
        if not prefix:
            env.vars[name] = value
    head, _, last = name.rpartition("::")
    if not member and prefix and head and last:
        env.vars.setdefault(name, value)


def _bind_function(env: values.Env, node: ir.FuncDef, prefix: str, member: bool) -> None:
    func = values.Func(node, env)
    names = [] if member else [node.name]
    if prefix:
        names.append(f"{prefix}::{node.name}")
    for name in names:
        known = env.vars.get(name)
        if isinstance(known, values.Overloads):
            known.funcs.append(func)
        else:
            env.vars[name] = values.Overloads([func])


def constant(node: ir.Decl, env: values.Env, prefix: str = "") -> Any:
    """The integer (or float, bool) a constant is, or the Decl itself."""
    if node.init is None or not (node.storage & {"constexpr", "const", "enum"}) or node.type is None:
        return node
    if node.type.pointers or node.type.reference or node.type.dims:
        return node
    init = node.init
    if isinstance(init, ir.Seq) and len(init.items) == 1:
        init = init.items[0]
    value = fold(init, env, prefix)
    return node if value is None else _kept(value, node.type)


def _kept(value: Any, kind: ir.TypeRef) -> Any:
    """A folded number as a variable of a type holds it: modulo two to its width."""
    dt = dtypes.from_cpp(kind.name)
    if type(value) is not int or dt not in dtypes.INTS or dt == "bool":
        return value
    low = value & (1 << dtypes.BITS[dt]) - 1
    return low - (1 << dtypes.BITS[dt]) if dt[0] == "i" and low >> dtypes.BITS[dt] - 1 else low


def fold(node: ir.Expr, env: values.Env, prefix: str = "", depth: int = 0) -> int | float | bool | None:
    """The value of a constant expression over literals and known constants; None when it is not simple."""
    if depth > 60:
        return None
    try:
        return _folded(node, env, prefix, depth)
    except (ArithmeticError, ValueError):  # an infinity as an integer, an integer that no float holds
        return None


def _folded(node: ir.Expr, env: values.Env, prefix: str, depth: int) -> int | float | bool | None:
    if isinstance(node, ir.Const):
        return node.value if isinstance(node.value, (bool, int, float)) else None
    if isinstance(node, (ir.Name, ir.TypeRef)):
        return _known(node, env, prefix)
    if isinstance(node, ir.Unary):
        value = fold(node.value, env, prefix, depth + 1)
        if value is None:
            return None
        if node.op == "-":
            return -value
        if node.op == "~" and isinstance(value, int):
            return ~value
        return (not value) if node.op == "not" else (value if node.op == "+" else None)
    if isinstance(node, ir.Cond):
        test = fold(node.test, env, prefix, depth + 1)
        return None if test is None else fold(node.yes if test else node.no, env, prefix, depth + 1)
    if isinstance(node, ir.Cast):
        value = fold(node.value, env, prefix, depth + 1)
        if value is None or node.type.pointers:
            return None
        if node.type.name in ("float", "double"):
            return float(value)
        return _kept(int(value), node.type) if value == value else None
    if isinstance(node, ir.Call):
        return _call(node, env, prefix, depth)
    if isinstance(node, (ir.Binary, ir.Compare, ir.Bool)):
        return _operation(node, env, prefix, depth)
    return None


def _known(node: ir.Name | ir.TypeRef, env: values.Env, prefix: str) -> int | float | bool | None:
    if isinstance(node, ir.TypeRef):
        if node.args or node.member or node.pointers:
            return None
        name = node.name
    else:
        name = node.id
    scope = prefix
    while True:
        value = env.vars.get(f"{scope}::{name}" if scope else name)
        if isinstance(value, (bool, int, float)):
            return value
        if not scope:
            return None
        scope = scope.rpartition("::")[0]


def _call(node: ir.Call, env: values.Env, prefix: str, depth: int) -> int | float | bool | None:
    name = node.func.id if isinstance(node.func, ir.Name) else getattr(node.func, "name", "")
    if name == "sizeof" and node.args and isinstance(node.args[0], ir.TypeRef):
        kind = node.args[0]
        return 8 if kind.pointers else _SIZES.get(kind.name.rsplit("::", 1)[-1])
    args = [fold(arg, env, prefix, depth + 1) for arg in node.args]
    numbers = [arg for arg in args if arg is not None]
    if len(numbers) < len(args) or not numbers:
        return None
    if name in ("std::max", "std::min", "max", "min") and len(numbers) == 2:
        return max(numbers) if name.endswith("max") else min(numbers)
    if name in _SIZES and len(numbers) == 1:
        return float(numbers[0]) if name in ("float", "double") else int(numbers[0])
    return None


def _operation(
    node: ir.Binary | ir.Compare | ir.Bool, env: values.Env, prefix: str, depth: int
) -> int | float | bool | None:
    if isinstance(node, ir.Bool):
        for value in node.values:
            found = fold(value, env, prefix, depth + 1)
            if found is None:
                return None
            if bool(found) == (node.op == "or"):
                return bool(found)
        return node.op == "and"
    # A chain is nested to the left; walk down it first.
    left_node, right_node = node.left, (node.right if isinstance(node, ir.Binary) else node.rights[0])
    left = fold(left_node, env, prefix, depth + 1)
    right = fold(right_node, env, prefix, depth + 1)
    if left is None or right is None:
        return None
    return _apply(node.op if isinstance(node, ir.Binary) else node.ops[0], left, right)


def _apply(op: str, left: int | float, right: int | float) -> int | float | bool | None:
    compared = {"==": left == right, "!=": left != right, "<": left < right, "<=": left <= right, ">": left > right,
                ">=": left >= right}  # fmt: skip
    if op in compared:
        return compared[op]
    if op in "+-*":
        value = left + right if op == "+" else left - right if op == "-" else left * right
        return value if not isinstance(value, int) or value.bit_length() <= _MAX_BITS else None
    if op == "/" and right:
        if isinstance(left, float) or isinstance(right, float):
            return left / right
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    if not isinstance(left, int) or not isinstance(right, int):
        return None
    if op == "%" and right:
        return abs(left) % abs(right) * (-1 if left < 0 else 1)
    if op in ("<<", ">>") and 0 <= right < 64 and left.bit_length() <= 64:
        return left << right if op == "<<" else left >> right
    return {"&": left & right, "|": left | right, "^": left ^ right}.get(op)
