"""CUDA's device functions and the methods of cub and cooperative groups, for one thread."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import UNKNOWN, TypeValue, Value
from kbh_lint.cpp import layout
from kbh_lint.cpp.domain import Type
from kbh_lint.kernels.numeric import integers as whole
from kbh_lint.kernels.numeric import math as mathematics
from kbh_lint.kernels.numeric import ops
from kbh_lint.kernels.numeric.builtins import LIMITS, Args, Builtin, named
from kbh_lint.kernels.numeric.ctypes import LANES
from kbh_lint.kernels.numeric.numbers import literal
from kbh_lint.kernels.numeric.state import CType, Obj, Ptr, Reference
from kbh_lint.ops.catalogue import OPERATIONS
from kbh_lint.ops.operation import spelled

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine


def _read(m: Machine, c: Args) -> Any:
    pointer = c.get(0)
    if isinstance(pointer, Ptr):
        return m.read(pointer, c.site)
    return m.numbers.data(c.site, "f32", m.numbers.bit(c.site))


def _write(m: Machine, c: Args) -> Value:
    pointer = c.get(0)
    if isinstance(pointer, Ptr):
        m.write(pointer, c.get(1))
    return None


def _copy(m: Machine, c: Args) -> Value:
    """An asynchronous copy into shared memory: as good as done."""
    pointers = [p for p in c.items if isinstance(p, Ptr)]
    if len(pointers) > 1:
        target, source = pointers[0], pointers[1]
        m.write(Ptr(target.mem, target.off, source.type), m.read(source, c.site))
    return None


def _barrier(m: Machine, c: Args) -> Value:
    """A barrier: what other lanes wrote before it is seen behind it."""
    m.phase += 1
    return None


def _atomic(m: Machine, c: Args) -> Value:
    """atomicAdd, also on a single shared or local variable."""
    pointer = c.get(0)
    if isinstance(pointer, Reference):
        old = m.places.load(pointer.place, c.node, c.frame)
        m.places.store(pointer.place, ops.arithmetic("+", old, c.get(1), m.numbers, c.site, True))
        return old
    return mathematics.atomic_add(m, c)


def _cub_reduce(m: Machine, c: Args) -> Value:
    return mathematics.combined(m, c.get(0), c.get(1), c)


def _group_reduce(m: Machine, c: Args) -> Value:
    """`cg::reduce(group, value, op)`."""
    op = c.get(2)
    if isinstance(op, TypeValue) or op is UNKNOWN:
        return mathematics.lane_sum(m, Args([c.get(1)], {}, c.site, c.node, c.frame))
    return mathematics.combined(m, c.get(1), op, c)


def _sizeof(m: Machine, c: Args) -> Value:
    return _measured(m, c, aligned=False)


def _alignof(m: Machine, c: Args) -> Value:
    return _measured(m, c, aligned=True)


def _measured(m: Machine, c: Args, *, aligned: bool) -> Value:
    written = c.node.args[0] if isinstance(c.node, ir.Call) and c.node.args else None
    value = c.get(0)
    if isinstance(written, ir.TypeRef):
        found = layout.measured(m.types, written, c.frame, aligned=aligned)
    else:
        kind = m.types.type_of(value)
        sizes = m.types.extents(kind) if kind is not None else ()
        key = None if kind is None else m.types.key(m.types.pointed(kind, len(sizes)))
        found = (layout.alignment if aligned else layout.size)(key) if isinstance(key, Type) else None
        found = layout.array(found, sizes) if sizes and not aligned else found
    return UNKNOWN if found is None else whole.typed(found, "u64")


def _vector(dt: str, lanes: int) -> Builtin:
    def apply(m: Machine, c: Args) -> Value:
        return m.structs.construct(CType("vec", dt, lanes), c.items, c.node, c.frame)

    return apply


def _limit(value: float) -> Builtin:
    def apply(m: Machine, c: Args) -> Value:
        return literal(value)

    return apply


def _swap(m: Machine, c: Args) -> Value:
    return None


def _pack(m: Machine, c: Args) -> Value:
    return Obj({LANES[i]: v for i, v in enumerate(c.items[:4])}, CType("vec", "f32", min(len(c.items), 4)))


FUNCTIONS: dict[str, Builtin] = {
    **spelled(
        OPERATIONS,
        "cuda",
        {
            "atomic_add": _atomic, "size_of": _sizeof, "alignment": _alignof, "copy": _copy,
            "copy_async": _copy, "load": _read,
            "store": _write, "shuffle_masked": mathematics.other_lane(1), "shuffle": mathematics.other_lane(0),
            "sync": mathematics.nothing,
            "barrier": _barrier, "check": mathematics.nothing, "prefetch_line": mathematics.nothing,
            "atomic": mathematics.unknown, "atomic_max": mathematics.larger(1.0),
            "atomic_min": mathematics.larger(-1.0), "atomic_exchange": mathematics.exchanged,
            "vote": mathematics.unknown, "popc": mathematics.unknown,
            "ffs": mathematics.unknown, "clz": mathematics.unknown, "reversed": mathematics.unknown,
            "state": mathematics.unknown, "clock": mathematics.unknown,
            "lane_reduce": mathematics.unknown, "lane_max": mathematics.unknown,
            "shared_address": mathematics.same, "to_i32": mathematics.unknown, "lround": mathematics.unknown,
            "lrint": mathematics.unknown, "forward": mathematics.same, "aligned": mathematics.same,
            "same": mathematics.same, "to_bits": mathematics.to_bits, "from_bits_f32": mathematics.from_bits("f32"),
            "from_bits_f64": mathematics.from_bits("f64"),
            **{f"to_{dt}": mathematics.to_type(dt) for dt in ("f32", "f64", "f16", "bf16")},
            "pack_values": _pack, "tie": _pack, "swap": _swap,
        },
    ),
    "reduce": _group_reduce, "select": mathematics.select, "load": _read, "store": _write,
    **{n: _limit(v) for n, v in LIMITS.items() if n not in ("max", "min")},
}  # fmt: skip

METHODS: dict[str, Builtin] = {
    "Sum": mathematics.lane_sum, "Reduce": _cub_reduce, "InclusiveSum": mathematics.nothing,
    **named("shfl shfl_down shfl_up shfl_xor", mathematics.other_lane(0)),
    **named("sync wait arrive_and_wait", _barrier),
    **named("arrive commit", mathematics.nothing),
    **named(
        "thread_rank size num_threads block_rank num_blocks meta_group_rank meta_group_size "
        "group_index thread_index any all ballot load store fetch_add",
        mathematics.unknown,
    ),
    "map_shared_rank": mathematics.same,
}  # fmt: skip


@lru_cache(maxsize=1024)
def cuda_builtin(name: str) -> Builtin | None:
    """The device function of this name, without namespaces; None for names that are not known."""
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if name.startswith("make_"):
        vector = dtypes.vector_from_cpp(name.removeprefix("make_"))
        if vector is not None:
            return _vector(*vector)
    return mathematics.math_builtin(name)
