"""CUDA's device functions and the methods of cub and cooperative groups, for one thread."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes
from kbh_lint.base.values import UNKNOWN, TypeValue
from kbh_lint.kernels.numeric import integers as whole
from kbh_lint.kernels.numeric import math as mathematics
from kbh_lint.kernels.numeric import ops, places
from kbh_lint.kernels.numeric.builtins import LIMITS, Args, Builtin, named
from kbh_lint.kernels.numeric.ctypes import LANES, convert, resolve, scalar
from kbh_lint.kernels.numeric.numbers import literal
from kbh_lint.kernels.numeric.own import construct
from kbh_lint.kernels.numeric.state import CType, Obj, Ptr, Reference

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine


def _read(m: Machine, c: Args) -> Any:
    pointer = c.get(0)
    if isinstance(pointer, Ptr):
        return m.read(pointer, c.site)
    return m.numbers.data(c.site, "f32", m.numbers.bit(c.site))


def _write(m: Machine, c: Args) -> Any:
    pointer = c.get(0)
    if isinstance(pointer, Ptr):
        m.write(pointer, c.get(1))
    return None


def _copy(m: Machine, c: Args) -> Any:
    """An asynchronous copy into shared memory: as good as done."""
    pointers = [p for p in c.items if isinstance(p, Ptr)]
    if len(pointers) > 1:
        target, source = pointers[0], pointers[1]
        m.write(Ptr(target.mem, target.off, source.type), m.read(source, c.site))
    return None


def _atomic(m: Machine, c: Args) -> Any:
    """atomicAdd, also on a single shared or local variable."""
    pointer = c.get(0)
    if isinstance(pointer, Reference):
        old = places.load(m, pointer.place, c.node, c.frame)
        places.store(m, pointer.place, ops.arithmetic("+", old, c.get(1), m.numbers, c.site, True))
        return old
    return mathematics.atomic_add(m, c)


def _cub_reduce(m: Machine, c: Args) -> Any:
    return mathematics.combined(m, c.get(0), c.get(1), c)


def _group_reduce(m: Machine, c: Args) -> Any:
    """`cg::reduce(group, value, op)`."""
    op = c.get(2)
    if isinstance(op, TypeValue) or op is UNKNOWN:
        return mathematics.lane_sum(m, Args([c.get(1)], {}, c.site, c.node, c.frame))
    return mathematics.combined(m, c.get(1), op, c)


def _sizeof(m: Machine, c: Args) -> Any:
    value = c.get(0)
    kind = resolve(m, value.ref, c.frame) if isinstance(value, TypeValue) else value if type(value) is CType else None
    if kind is None or kind.dt not in dtypes.BITS:
        return UNKNOWN
    return whole.typed(max(1, dtypes.BITS[kind.dt] // 8) * kind.lanes, "u64")


def _to(dt: str) -> Builtin:
    def apply(m: Machine, c: Args) -> Any:
        return convert(m, c.get(0), scalar(dt), c.site)

    return apply


def _vector(dt: str, lanes: int) -> Builtin:
    def apply(m: Machine, c: Args) -> Any:
        return construct(m, CType("vec", dt, lanes), c.items, c.node, c.frame)

    return apply


def _limit(value: float) -> Builtin:
    def apply(m: Machine, c: Args) -> Any:
        return literal(value)

    return apply


def _swap(m: Machine, c: Args) -> Any:
    return None


def _pack(m: Machine, c: Args) -> Any:
    return Obj({LANES[i]: v for i, v in enumerate(c.items[:4])}, CType("vec", "f32", min(len(c.items), 4)))


FUNCTIONS: dict[str, Builtin] = {
    "atomicAdd": _atomic, "atomicAdd_block": _atomic, "atomicAdd_system": _atomic, "sizeof": _sizeof,
    **named("atomicMax atomicMax_block atomicMax_system", mathematics.larger(1.0)),
    **named("atomicMin atomicMin_block atomicMin_system", mathematics.larger(-1.0)),
    "atomicExch": mathematics.exchanged,
    **named("memcpy_async __pipeline_memcpy_async memcpy __builtin_memcpy", _copy),
    "reduce": _group_reduce, "select": mathematics.select,
    **named("__ldg __ldcs __ldcg __ldca __ldlu __ldcv ldg load", _read),
    **named("__stcs __stcg __stwt __stwb store", _write),
    **named("__shfl_sync __shfl_down_sync __shfl_up_sync __shfl_xor_sync", mathematics.other_lane(1)),
    **named("__shfl __shfl_down __shfl_up __shfl_xor", mathematics.other_lane(0)),
    **named(
        "__syncthreads __syncwarp __threadfence __threadfence_block __threadfence_system printf "
        "assert __trap __builtin_assume __nanosleep __prefetch sync this_thread_block this_grid "
        "this_cluster tiled_partition __pipeline_commit __pipeline_wait_prior __builtin_unreachable "
        "cudaGridDependencySynchronize cudaTriggerProgrammaticLaunchCompletion static_assert",
        mathematics.nothing,
    ),
    **named(
        "atomicCAS atomicOr atomicAnd atomicInc atomicDec atomicSub "
        "__ballot_sync __activemask __popc __ffs __clz clock64 clock __any_sync __all_sync "
        "__syncthreads_or __syncthreads_and __syncthreads_count __match_any_sync __reduce_max_sync "
        "__reduce_min_sync __reduce_add_sync __cvta_generic_to_shared __float2int_rn __float2int_rz "
        "__float2int_rd __float2int_ru __float2uint_rn lround lrintf __brev",
        mathematics.unknown,
    ),
    **named(
        "move forward __builtin_assume_aligned launder __builtin_expect as_const addressof",
        mathematics.same,
    ),
    **named(
        "__float_as_int __float_as_uint __double_as_longlong __half_as_ushort bit_cast",
        mathematics.to_bits,
    ),
    **named("__int_as_float __uint_as_float", mathematics.from_bits("f32")),
    "__longlong_as_double": mathematics.from_bits("f64"), "__hiloint2double": mathematics.from_bits("f64"),
    **named(
        "__int2float_rn __uint2float_rn __double2float_rn __half2float __bfloat162float __ll2float_rn",
        _to("f32"),
    ),
    **named("__int2double_rn __uint2double_rn __ll2double_rn", _to("f64")),
    **named("__float2half_rn __float2half", _to("f16")),
    **named("__float2bfloat16_rn __float2bfloat16", _to("bf16")),
    **{n: _limit(v) for n, v in LIMITS.items() if n not in ("max", "min")},
    "make_pair": _pack, "make_tuple": _pack, "tie": _pack, "swap": _swap,
}  # fmt: skip

METHODS: dict[str, Builtin] = {
    "Sum": mathematics.lane_sum, "Reduce": _cub_reduce, "InclusiveSum": mathematics.nothing,
    **named("shfl shfl_down shfl_up shfl_xor", mathematics.other_lane(0)),
    **named("sync arrive wait commit arrive_and_wait", mathematics.nothing),
    **named(
        "thread_rank size num_threads block_rank num_blocks meta_group_rank meta_group_size "
        "group_index thread_index any all ballot load store fetch_add",
        mathematics.unknown,
    ),
    "map_shared_rank": mathematics.same,
}  # fmt: skip


@lru_cache(maxsize=1024)
def cuda_builtin(name: str) -> Builtin | None:
    """A function by its name without namespaces."""
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if name.startswith("make_"):
        vector = dtypes.vector_from_cpp(name.removeprefix("make_"))
        if vector is not None:
            return _vector(*vector)
    return mathematics.math_builtin(name)
