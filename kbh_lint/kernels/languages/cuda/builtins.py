"""What CUDA's built-in functions and the libraries' device functions do to abstract values: a table, and its rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir
from kbh_lint.cpp import layout
from kbh_lint.kernels.core.flags import only_reads
from kbh_lint.kernels.core.joins import join, mix
from kbh_lint.kernels.core.origins import CLOCK, data_origins, flagged, union, union_casts
from kbh_lint.kernels.core.value import NOTHING, TWIDDLED, UNKNOWN_V, CType, Mul, V, in_order, offset_of
from kbh_lint.kernels.languages.cuda import conversions
from kbh_lint.kernels.languages.cuda.cute_functions import of_cute
from kbh_lint.kernels.languages.cuda.libraries import (
    cute_gemm,
    fragment_fill,
    fragment_load,
    fragment_product,
    fragment_store,
    library,
)
from kbh_lint.kernels.languages.cuda.places import Builtin, CppCall
from kbh_lint.kernels.languages.cuda.types import is_pointer
from kbh_lint.kernels.languages.ptx import cache_policy
from kbh_lint.kernels.languages.ptx.ptx import copy_bytes, multiply_add
from kbh_lint.ops.catalogue import OPERATIONS
from kbh_lint.ops.operation import spelled

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.cuda.run import CudaRun


# --- memory ---


def _read(call: CppCall) -> V:
    return call.m.memory.read_through(call.arg(0), call.loc)


def _write(call: CppCall) -> V:
    call.m.memory.write_through(call.arg(0), call.arg(1), call.loc)
    return UNKNOWN_V


def _copy(call: CppCall) -> V:
    """memcpy and its asynchronous forms: (destination, source, ...)."""
    target, source = call.arg(0), call.arg(1)
    if not source.cells or not target.cells:
        return UNKNOWN_V
    _copy_objects(call.m, target, source, call.loc)
    return target


def _copy_objects(m: CudaRun, target: V, source: V, loc: ir.Loc) -> None:
    for cell in in_order(source.cells):
        value = m.memory.read_cell(cell, cell.content if cell.kind == "param" else "?", loc, offset_of(source))
        if value is None:
            continue
        value = value.with_(origins=union(value.origins, flagged(source.origins, "index")))
        for place in target.cells:
            if place.kind == "var":
                m.memory.write_cell(place, value, loc)
            else:
                m.memory.write_cell(place, value, loc, value.dtype, offset_of(target))


def _copy_async(call: CppCall) -> V:
    """cooperative_groups::memcpy_async(group, destination, source, ...), cuda::memcpy_async without the group."""
    pointers = [v for v in call.args if is_pointer(v.ct) and v.cells]
    if len(pointers) >= 2:
        copy_bytes(call.m, pointers[0], pointers[1], call.loc)
    return UNKNOWN_V


def _access_property(call: CppCall) -> V:
    return cache_policy.property_given(call.m, call.args, call.loc)


def _atomic(call: CppCall) -> V:
    m, pointer, value = call.m, call.arg(0), call.args[-1] if len(call.args) > 1 else UNKNOWN_V
    if only_reads(call.path, call.args[1:]):
        return m.memory.read_through(pointer, call.loc)
    left = m.flags.after_atomic(call.path.rsplit("::", 1)[-1], pointer, call.args)
    if left is not None:
        m.memory.write_through(pointer, left, call.loc)
        return m.memory.read_through(pointer, call.loc)
    if call.path.rsplit("::", 1)[-1].startswith("atomicAdd"):
        value = m.products.add_in_memory(value, pointer.dtype, call.loc)
    m.memory.write_through(pointer, value, call.loc)
    return m.memory.read_through(pointer, call.loc)


# --- numbers ---


def _binary(op: str) -> Builtin:
    def run(call: CppCall) -> V:
        made = call.m.numbers.binary(op, call.arg(0), call.arg(1), call.loc)
        return made.with_(ct=call.arg(0).ct)

    return run


def _fma(call: CppCall) -> V:
    a, b, c = call.arg(0), call.arg(1), call.arg(2)
    made = multiply_add(call.m, a, b, c, call.loc, in_loop=True)
    return made.with_(ct=a.ct)


def _elementwise(flag: str) -> Builtin:
    def run(call: CppCall) -> V:
        found = [v for v in call.args if v.origins] or call.args[:1]
        made = mix(found)
        dtype = made.dtype if made.dtype in dtypes.FLOATS or made.dtype == "?" else "f32"
        if made.dtype in dtypes.INTS and not flag:
            dtype = made.dtype
        origins = flagged(made.origins, flag) if flag else made.origins
        call.m.facts.arithmetic = call.m.facts.arithmetic or (dtype in dtypes.FLOATS and bool(made.origins))
        return V(dtype, made.content if dtype == made.dtype else dtype, origins, made.casts, ct=call.arg(0).ct)

    return run


def _bound(call: CppCall) -> V:
    """min, max and clamp, of floats and integers."""
    a, b = call.arg(0), call.arg(1)
    name = call.path.rsplit("::", 1)[-1]
    if len(call.args) == 2 and isinstance(a.const, (int, float)) and isinstance(b.const, (int, float)):
        return V(call.m.numbers.promote("+", a, b), "", const=(max if "max" in name else min)(a.const, b.const),
                 deps=a.deps | b.deps)  # fmt: skip
    target = call.m.numbers.promote("+", a, b)
    if target in dtypes.FLOATS:
        a, b = call.m.numbers.convert(a, target, call.loc), call.m.numbers.convert(b, target, call.loc)
    origins = flagged(union(a.origins, b.origins), "max")
    made = V(target, target, origins, union_casts(a.casts, b.casts), NOTHING, a.deps | b.deps, ct=a.ct)
    ranges = call.m.ranges
    return ranges.extreme("max" in name, a, b, made) if ranges.given and len(call.args) == 2 else made


def _same(position: int) -> Builtin:
    def run(call: CppCall) -> V:
        value = call.arg(position)
        return value if not isinstance(value.x, Mul) and not value.known else value.with_(const=NOTHING)

    return run


def _lane(call: CppCall) -> V:
    """One lane of a packed pair."""
    return call.arg(0).with_(ct=None, const=NOTHING)


def _pack(call: CppCall) -> V:
    """make_float4, __halves2bfloat162: lanes put together."""
    name = call.path.rsplit("::", 1)[-1]
    vector = dtypes.vector_from_cpp(name.removeprefix("make_"))
    made = mix(call.args) if call.args else UNKNOWN_V
    if vector is not None and name.startswith("make_"):
        made = mix([call.m.objects.to_type(v, CType(vector[0]), call.loc) for v in call.args]) if call.args else made
        marks = [v.x for v in call.args if data_origins(v.origins)]  # lanes are not told apart
        mark = marks[0] if marks and all(isinstance(one, Mul) for one in marks) else made.x
        return made.with_(ct=CType(*vector), dtype=vector[0] if made.dtype in ("", "?") else made.dtype, x=mark)
    dtype = made.dtype
    for part, target in (("bfloat16", "bf16"), ("half", "f16")):
        if part in name and made.origins:
            made = call.m.numbers.convert(made, target, call.loc)
            dtype = target
            break
        if part in name:
            dtype = target
            break
    return made.with_(ct=CType(dtype, 2), dtype=dtype)


def _bits(call: CppCall) -> V:
    """__byte_perm, __funnelshift_*: bytes and bits move about."""
    value = mix(call.args[:2])
    return value.with_(x=TWIDDLED, const=NOTHING) if data_origins(value.origins) else value


def _index(call: CppCall) -> V:
    """A number about bits or lanes: __popc, __ballot_sync, __ffs."""
    value = mix(call.args)
    return V("i32", "i32", value.origins, value.casts)


def _clock(call: CppCall) -> V:
    """What a clock of the GPU shows."""
    return V("i64", "i64", CLOCK)


def _dp4a(call: CppCall) -> V:
    a, b = call.arg(0), call.arg(1)
    made = call.m.products.product("dp", a, b, "i32", call.loc, a_dtype="i8", b_dtype="i8")
    return join(made, call.arg(2).with_(const=NOTHING))


def _nothing(call: CppCall) -> V:
    return UNKNOWN_V


def _barrier(call: CppCall) -> V:
    call.m.memory.alone = False
    return UNKNOWN_V


def _size(call: CppCall) -> V:
    return _measured(call, aligned=False)


def _alignment(call: CppCall) -> V:
    return _measured(call, aligned=True)


def _measured(call: CppCall, *, aligned: bool) -> V:
    node, types = call.nodes[0] if call.nodes else None, call.m.types
    if isinstance(node, ir.TypeRef):
        found = layout.measured(types.cpp, node, types.cpp.here(), aligned=aligned)
        return V("u64", const=NOTHING if found is None else found)
    value = call.arg(0)
    return types.size_of(value.const if isinstance(value.const, CType) else value.ct or CType(value.dtype), aligned)


def _pack_size(call: CppCall) -> V:
    """`sizeof...(T)`: how many a pack has is not followed."""
    return V("u64")


def _address(call: CppCall) -> V:
    """__cvta_generic_to_shared and friends: an address as an integer."""
    value = call.arg(0)
    return value.with_(ct=None, dtype="u64", const=NOTHING) if value.cells else value


def _std_move(call: CppCall) -> V:
    return call.arg(0)


def _swap(call: CppCall) -> V:
    m = call.m
    if len(call.args) == 2 and len(call.nodes) == 2:
        both = join(call.args[0], call.args[1])
        for node in call.nodes:
            if node is not None and not isinstance(node, (ir.Const, ir.Call)):
                m.names.assign(node, both.with_(const=NOTHING))
    return UNKNOWN_V


def _sine_and_cosine(call: CppCall) -> V:
    """sincosf(x, &sine, &cosine)."""
    made = _elementwise("")(call)
    for pointer in call.args[1:3]:
        if pointer.cells:
            call.m.memory.write_through(pointer, made.with_(cells=frozenset()), call.loc)
    return UNKNOWN_V


def _vote(call: CppCall) -> V:
    """__any_sync(mask, test), __syncthreads_or(test): the test of all lanes, looking for zeros if on a bare number."""
    value = call.args[-1] if call.args else UNKNOWN_V
    origins = flagged(value.origins, "zero") if value.dtype in dtypes.FLOATS else value.origins
    return V("i32", "i32", origins, value.casts)


def _fold_expression(call: CppCall) -> V:
    """`(args + ...)`."""
    op = call.arg(0).const
    items = [item for value in call.args[1:] for item in (value.x if isinstance(value.x, tuple) else (value,))]
    made = items[0] if items else UNKNOWN_V
    for value in items[1:]:
        made = call.m.numbers.binary(op, made, value, call.loc) if op in ("+", "-", "*") else mix([made, value])
    return made


_NAMED: dict[str, Builtin] = {
    "load": _read, "store": _write, "copy": _copy, "copy_async": _copy_async, "set": _nothing,
    "access_property": _access_property, "fma": _fma, "sincos": _sine_and_cosine,
    "pow": lambda call: _elementwise("exp" if call.arg(0).known else "")(call), "lane_max": _bound,
    "shuffle": _same(0), "shuffle_masked": _same(1), "lane_reduce": _same(1), "lane_or": _same(1), "vote": _vote,
    "same": lambda call: call.arg(0), "lane_of_pair": _lane, "aligned": _lane, "to_address": _lane, "pack": _pack,
    "pack_values": _pack, "byte_perm": _bits, "reversed": _bits, "funnel": _bits, "state": _index, "clock": _clock,
    "dot_of_bytes": _dp4a, "address": _address, "shared_address": _address, "size_of": _size, "alignment": _alignment,
    "pack_size": _pack_size,
    "forward": _std_move, "pointer_of": _std_move, "swap": _swap, "fragment_fill": fragment_fill,
    "fragment_load": fragment_load, "fragment_store": fragment_store, "mma": fragment_product,
    "fold_expression": _fold_expression, "infinity": lambda call: V("f32", "", const=float("inf")),
    "limit": lambda call: V("f32", "f32"), "barrier": _barrier, "wait": _barrier,
    "sync": _nothing, "check": _nothing, "handle": _nothing,
}  # fmt: skip
_TABLE = spelled(
    OPERATIONS,
    "cuda",
    _NAMED,
    {
        "function": lambda op: _elementwise(op.flag),
        "whole": lambda op: _elementwise(op.flag),
        "test": lambda op: _elementwise(op.flag),
        "arithmetic": lambda op: _binary(op.symbol),
        "extreme": lambda op: _bound,
        "bits": lambda op: _index,
        "atomic": lambda op: _atomic,
    },
)


_SIZE = re.compile(r"(?:cute::)?(?:Int|_\d+)\Z")  # a size of CuTe that is a type
_ATOM = re.compile(r"(?:cute::)?SM\d+_\w+\Z")  # an instruction of CuTe, which is a type that holds no data


def is_builtin(name: str) -> bool:
    """Whether CUDA has a built-in function called `name`."""
    return name in _TABLE


def builtin(call: CppCall) -> V:
    """The result of calling a function that the file does not define, by its path."""
    call.m.calls.place = None
    made = library(call)
    if made is None:
        name = call.path.rsplit("::", 1)[-1]
        made = _operation(call, name)
        made = _of_type(call, name) if made is None else made
    return _unread(call) if made is None else made


def _operation(call: CppCall, name: str) -> V | None:
    """A function that the catalogue of operations has, or that says by its name what it does."""
    path = call.path
    if name in ("bit_cast", "__builtin_bit_cast") and call.explicit:
        ct = call.m.types.type_argument(call.explicit[0])
        return call.m.numbers.bitcast(call.arg(0), ct.dtype, call.loc).with_(ct=ct if ct.lanes > 1 else None)
    if name == "gemm" and ("cute" in path or path == name):
        return cute_gemm(call)
    if name in ("max", "min") and path.endswith(("numeric_limits::max", "numeric_limits::min")):
        return V("?", "?")
    handler = of_cute(call) or _TABLE.get(name)
    if handler is not None:
        return handler(call)
    converted = conversions.by_name(call, name)
    if converted is not None:
        return converted
    if name.startswith("__nv_") and not name.startswith("__nv_cvt_") or "operator" in name:
        return mix(call.args) if call.args else UNKNOWN_V
    return None


def _of_type(call: CppCall, name: str) -> V | None:
    """The constructor of a number's type or of a library's class, or a function of that class."""
    path = call.path
    found = dtypes.from_cpp(path)
    if found:
        return call.m.objects.construct(CType(found), call.args, call.loc, call.loc, "", call.nodes)
    if path.rpartition("::")[0].endswith("Barrier"):  # CUTLASS's, by address
        return _barrier(call) if "wait" in name else V("i32", "i32")
    if "access_property::" in path or name == "PipelineState" or _ATOM.match(path):
        return V(ct=CType(name=path))
    if path.startswith(("std::integral_constant", "std::true_type", "std::false_type")) or _SIZE.match(path):
        return UNKNOWN_V
    return None


def _unread(call: CppCall) -> V:
    """Nobody knows what it does: it may write all that it can reach."""
    call.m.facts.unread(f"a call of {call.path or 'something unknown'}", call.loc)
    made = call.m.memory.havoc(call.args, "?", call.loc)
    for value in call.args:
        for cell in in_order(value.cells):
            if cell.kind in ("var", "local", "shared") and data_origins(made.origins):
                call.m.memory.write_cell(cell, made.with_(dtype=value.dtype), call.loc)
    return made
