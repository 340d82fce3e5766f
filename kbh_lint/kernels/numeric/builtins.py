"""Calls: to functions of the submission in place, to library functions by table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir, values
from kbh_lint.base.values import UNKNOWN, DType, Sym
from kbh_lint.kernels.numeric import ctypes, expr, memory, ops, own, places
from kbh_lint.kernels.numeric import integers as whole
from kbh_lint.kernels.numeric.numbers import Num, literal
from kbh_lint.kernels.numeric.state import OTHER, Closure, CType, Frame, Method, Obj, Ptr, Reference

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine

_CONSTANTS: dict[str, Any] = {
    "INFINITY": math.inf, "HUGE_VALF": math.inf, "HUGE_VAL": math.inf, "CUDART_INF_F": math.inf,
    "CUDART_INF": math.inf, "NAN": math.nan, "FLT_MAX": 3.4028234663852886e38, "FLT_MIN": 1.1754943508222875e-38,
    "FLT_EPSILON": 2.0**-23, "DBL_MAX": 1.7976931348623157e308, "M_LOG2E": 1.4426950408889634,
    "M_LN2": 0.6931471805599453, "M_LOG2Ef": 1.4426950408889634, "M_PI": 3.141592653589793,
}  # fmt: skip
_INTEGERS: dict[str, Any] = {
    "warpSize": 32,
    "INT_MAX": 2**31 - 1,
    "UINT_MAX": whole.typed(-1, "u32"),
    "nullptr": None,
    "NULL": None,
}
LIMITS = {"infinity": math.inf, "max": 3.4028234663852886e38, "lowest": -3.4028234663852886e38,
           "min": 1.1754943508222875e-38, "epsilon": 2.0**-23, "quiet_NaN": math.nan}  # fmt: skip


@dataclass(slots=True, eq=False)
class Args:
    """The arguments of a library call, and where it stands."""

    items: list[Any]
    keywords: dict[str, Any]
    site: int
    node: Any
    frame: Frame

    def get(self, index: int, name: str = "", default: Any = UNKNOWN) -> Any:
        """The argument at a position, or by its keyword."""
        if name in self.keywords:
            return self.keywords[name]
        return self.items[index] if 0 <= index < len(self.items) else default

    def number(self, m: Machine, index: int, name: str = "") -> Num | None:
        return ops.number(self.get(index, name), m.numbers, self.site + index % 8)


Builtin = Callable[["Machine", Args], Any]


def named(names: str, function: Builtin) -> dict[str, Builtin]:
    """Table rows for several names of one function."""
    return dict.fromkeys(names.split(), function)


def constant(name: str) -> Any:
    """A C++ name that nothing in the text defines."""
    last = name.rsplit("::", 1)[-1]
    if last in _CONSTANTS:
        return literal(_CONSTANTS[last])
    return _INTEGERS[last] if last in _INTEGERS else Sym(name)


def launch_dim(m: Machine, name: str, axis: str) -> Any:
    """`threadIdx.x` and its kin: we are the first lane of the first block."""
    if name == "blockIdx":
        return whole.typed(0, "u32")
    if name == "threadIdx":
        count = m.block["xyz".index(axis)] if axis in ("x", "y", "z") else 1
        known = isinstance(count, int) and not m.lane
        return whole.lanes(0, count, "u32") if known else whole.typed(m.lane, "u32")
    dims = m.block if name == "blockDim" else m.grid if name == "gridDim" else None
    if dims is None or axis not in ("x", "y", "z"):
        return Method(Sym(name), axis)
    size = dims["xyz".index(axis)]
    return whole.typed(size, "u32") if isinstance(size, int) else size


def either(a: object, b: object) -> Any:
    """One of two values when the condition is not known: the one that is made of data."""
    return b if ops.sources(b) and not ops.sources(a) else a


# --- calls -----------------------------------------------------------------------------------------------------


def call(m: Machine, node: ir.Call, frame: Frame) -> Any:
    """The value of a call expression."""
    func = node.func
    targs: tuple[Any, ...] = ()
    callee: Any
    if isinstance(func, ir.TypeRef):
        callee, targs = _template_callee(m, func, frame)
    elif isinstance(func, ir.Attr) and frame.cpp:
        callee = _method(m, func, frame)
        targs = func.args or ()
    else:
        callee = expr.evaluate(m, func, frame)
    if isinstance(callee, Num):
        return callee
    if frame.this is not None and isinstance(callee, Sym):
        callee = _own_method(m, frame.this, callee)
    args, keywords = _arguments(m, node, frame, callee)
    return invoke(m, callee, args, keywords, node, frame, targs)


def _arguments(m: Machine, node: ir.Call, frame: Frame, callee: object) -> tuple[list[Any], dict[str, Any]]:
    by_place = _reference_positions(m, callee) if frame.cpp else frozenset()
    args: list[Any] = []
    for i, arg in enumerate(node.args):
        if isinstance(arg, ir.Star):
            value = expr.evaluate(m, arg.value, frame)
            args.extend(value if isinstance(value, tuple) else [UNKNOWN])
            continue
        where = places.place(m, arg, frame) if i in by_place else None
        start = m.dialect.argument(m, arg, callee, frame)
        if start is not None:
            args.append(start)
            continue
        args.append(Reference(where) if where is not None else expr.evaluate(m, arg, frame))
    keywords = {name: expr.evaluate(m, value, frame) for name, value in node.keywords if name is not None}
    return args, keywords


def _functions(m: Machine, callee: object) -> list[ir.FuncDef]:
    if isinstance(callee, values.Overloads):
        return [f.node for f in callee.funcs]
    if isinstance(callee, values.Func | Closure):
        return [callee.node]
    if isinstance(callee, Method) and isinstance(callee.value, Obj):
        return [func.node for func in own.methods(m, callee.value.type, callee.name)]
    return []


def _reference_positions(m: Machine, callee: object) -> frozenset[int]:
    """Which arguments some function of this name takes by reference."""
    if not isinstance(callee, values.Overloads):
        return _by_reference(m, callee)
    known = m.reference_positions.get(id(callee))
    if known is None:
        known = m.reference_positions[id(callee)] = _by_reference(m, callee)
    return known


def _by_reference(m: Machine, callee: object) -> frozenset[int]:
    return frozenset(
        i
        for node in _functions(m, callee)
        for i, p in enumerate(node.params)
        if isinstance(p.type, ir.TypeRef) and p.type.reference and not p.type.const
    )


def _template_callee(m: Machine, func: ir.TypeRef, frame: Frame) -> tuple[Any, tuple[Any, ...]]:
    """`f<64>(x)`, `T(x)`, `std::numeric_limits<T>::max()`."""
    if func.member:
        last = func.member[-1]
        if func.name.endswith("numeric_limits"):
            return literal(LIMITS.get(last, 0.0)), ()
        owner = ctypes.resolve(m, ir.TypeRef(func.name, func.args, func.loc, func.member[:-1]), frame)
        if owner.kind == "struct" and own.methods(m, owner, last):
            return Method(ctypes.zero(m, owner), last), ()
        kind = ctypes.resolve(m, func, frame)
        return (kind, ()) if kind is not OTHER else (Sym(f"{func.name}::{last}"), ())
    try:
        value = frame.env.lookup(func.name) if frame.find(func.name) is None else UNKNOWN
    except KeyError:
        value = UNKNOWN
    if isinstance(value, values.Overloads | values.Func):
        return value, func.args
    kind = ctypes.resolve(m, func, frame)
    return (kind if kind is not OTHER else Sym(func.name)), func.args


def _method(m: Machine, func: ir.Attr, frame: Frame) -> Any:
    """The callee of `x.f(...)` and `p->f(...)`, with `x` in place."""
    value = expr.evaluate(m, func.value, frame)
    if isinstance(value, Reference):
        value = places.load(m, value.place, func, frame)
    if isinstance(value, Ptr):
        found = memory.target(m, value, m.site(frame, func))
        value = found if isinstance(found, Obj) else value
    if isinstance(value, Obj) and func.name in value.fields:
        return value.fields[func.name]
    where = places.place(m, func.value, frame) if isinstance(func.value, ir.Name | ir.Attr) else None
    return Method(value, func.name, where)


def _own_method(m: Machine, this: Obj, callee: Sym) -> Any:
    return Method(this, callee.path) if own.methods(m, this.type, callee.path) else callee


def invoke(
    m: Machine,
    callee: object,
    args: list[Any],
    keywords: dict[str, Any],
    node: object,
    frame: Frame,
    targs: tuple[Any, ...] = (),
) -> Any:
    """Calls a value."""
    if isinstance(callee, values.JitFunction):
        callee = callee.func
    if isinstance(callee, values.Func) and callee.node.kind == "python":
        return m.call(callee.node, callee.env, args, keywords, node, frame, defaults=callee.defaults)
    if isinstance(callee, values.Overloads | values.Func):
        funcs = callee.funcs if isinstance(callee, values.Overloads) else [callee]
        name = funcs[0].node.name if funcs else ""
        if frame.cpp and name and "::" not in name and _of_cuda(name) and not own.takes(m, funcs, args, targs, frame):
            loaded = [_loaded(m, a, node, frame) for a in args]  # CUDA's, of a name that is overloaded for other types
            return _call_symbol(m, name, Args(loaded, keywords, m.site(frame, node), node, frame))
        chosen = own.chosen_of(m, funcs, args, targs, frame)
        if chosen is not None:
            return m.call(chosen.func.node, chosen.func.env, args, keywords, node, frame, bound=chosen.bound)
    if isinstance(callee, Closure):
        outer = callee.frame
        scopes = [*outer.scopes, callee.held] if callee.held else outer.scopes
        return m.call(callee.node, outer.env, args, keywords, node, frame, outer=scopes, this=outer.this)
    if isinstance(callee, values.CppType | values.TypeValue | CType):
        items = [_loaded(m, a, node, frame) for a in args]
        return own.construct(m, ctypes.of_value(m, callee), items, node, frame, braces=getattr(node, "braces", False))
    if isinstance(callee, DType) and args:
        return ctypes.convert(m, args[0], ctypes.scalar(callee.name), m.site(frame, node))
    if isinstance(callee, Obj):
        called = own.operator(m, "operator()", [callee, *args], node, frame)
        return UNKNOWN if called is None else called
    packed = Args([_loaded(m, a, node, frame) for a in args], keywords, m.site(frame, node), node, frame)
    if isinstance(callee, Method):
        return _call_method(m, callee, args, packed, targs)
    if isinstance(callee, Sym):
        return _call_symbol(m, callee.path, packed)
    return unknown_call(m, "a call", packed)


def _loaded(m: Machine, value: object, node: object, frame: Frame) -> Any:
    if isinstance(value, Reference) and not value.address:
        return places.load(m, value.place, node, frame)
    return value


def _call_method(m: Machine, callee: Method, args: list[Any], packed: Args, targs: tuple[Any, ...] = ()) -> Any:
    from kbh_lint.kernels.numeric.cuda import METHODS as CUDA

    value = callee.value
    if isinstance(value, Obj):
        funcs = own.methods(m, value.type, callee.name)
        if funcs:
            chosen = own.chosen_of(m, funcs, args, targs, packed.frame, value.type.args)
            func = funcs[0] if chosen is None else chosen.func
            bound = {**value.type.args, **({} if chosen is None else chosen.bound)}
            return m.call(func.node, func.env, args, {}, packed.node, packed.frame, this=value, bound=bound)
    if packed.frame.cpp:
        handler = CUDA.get(callee.name)
        made = handler(m, packed) if handler is not None else NotImplemented
    else:
        made = m.dialect.method(m, callee, packed)
    return unknown_call(m, f"method {callee.name}", packed) if made is NotImplemented else made


def _of_cuda(name: str) -> Builtin | None:
    """CUDA's function of this name."""
    from kbh_lint.kernels.numeric.cuda import cuda_builtin

    return cuda_builtin(name)


def _call_symbol(m: Machine, path: str, packed: Args) -> Any:
    handler: Builtin | None
    if packed.frame.cpp:
        handler = _of_cuda(path.rsplit("::", 1)[-1])
    else:
        handler = m.dialect.builtin(path)
    if handler is None:
        return unknown_call(m, path, packed)
    return handler(m, packed)


def unknown_call(m: Machine, what: str, packed: Args) -> Any:
    """A call nobody can follow: some value made of the same data, noted when there is any."""
    src = 0
    for value in (*packed.items, *packed.keywords.values()):
        src |= ops.sources(value)
        if isinstance(value, Ptr) and value.mem.kind != "param" and value.mem.written():
            src |= ops.sources(value.mem.last)
    if not src:
        return UNKNOWN
    m.note(f"{what} is not followed", packed.node)
    return m.numbers.data(packed.site, "f32", src)
