"""CuTe DSL's functions, tensors and methods, for one lane: views are their tensors, an index is a place in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes
from kbh_lint.base.values import UNKNOWN, DType, Sym, Value
from kbh_lint.dsl.tensors import kinds
from kbh_lint.dsl.tensors.numeric import TensorDialect, fill, held
from kbh_lint.kernels.numeric import math as mathematics
from kbh_lint.kernels.numeric import ops
from kbh_lint.kernels.numeric.builtins import Args, Builtin, named
from kbh_lint.kernels.numeric.ctypes import scalar
from kbh_lint.kernels.numeric.integers import lanes
from kbh_lint.kernels.numeric.numbers import Num
from kbh_lint.kernels.numeric.python import to_type
from kbh_lint.kernels.numeric.state import Frame, Memory, Obj, Ptr, Range
from kbh_lint.ops.catalogue import OPERATIONS
from kbh_lint.ops.operation import spelled

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine

_COPIED = 8  # elements of a fragment that a copy takes along


# --- memory -------------------------------------------------------------------------------------------------------


def _memory(kind: str, dtype: object) -> Ptr:
    held = scalar(dtype.name if isinstance(dtype, DType) else "f32")
    return Ptr(Memory(kind, kind, held), 0, held)


def _registers(m: Machine, c: Args) -> Value:
    return _memory("local", c.get(1, "dtype"))


def _registers_like(m: Machine, c: Args) -> Value:
    like = c.get(0)
    known = DType(like.type.dt) if isinstance(like, Ptr) else UNKNOWN
    return _memory("local", c.get(1, "dtype", known))


def _shared(m: Machine, c: Args) -> Value:
    found = next((v for v in (*c.items, *c.keywords.values()) if isinstance(v, DType)), UNKNOWN)
    return _memory("shared", found)


def _allocate(m: Machine, c: Args) -> Value:
    wanted = c.get(1)
    if isinstance(wanted, kinds.StructType):
        return Obj({name: _memory("shared", dtype) for name, dtype in wanted.fields})
    return _memory("shared", wanted)


def _load(m: Machine, c: Args) -> Value:
    value = c.get(0)
    return m.read(value, c.site) if isinstance(value, Ptr) else value


def _store(m: Machine, c: Args) -> Value:
    target, value = c.get(0), held(m, c.get(1, "data"), c.site)
    if isinstance(target, Ptr):
        m.write(target, value)
    elif ops.sources(value):
        m.note("a store through something unknown", c.node)
    return None


def _copy(first: int) -> Builtin:
    """A copy from the argument at a position to the next: of every element that was written, else of one."""

    def run(m: Machine, c: Args) -> Any:
        source, target = c.get(first, "src"), c.get(first + 1, "dst")
        if not isinstance(source, Ptr) or not isinstance(target, Ptr):
            m.note("a copy of memory that is not known", c.node)
            return None
        written = sorted(source.mem.cells)[:_COPIED]
        if not written or not isinstance(source.off, int) or not isinstance(target.off, int):
            m.write(target, m.read(source, c.site))
            return None
        for place in written:
            moved = Ptr(target.mem, target.off + place - source.off, target.type, target.rest)
            m.write(moved, m.read(Ptr(source.mem, place, source.type, source.rest), c.site))
        return None

    return run


# --- numbers ------------------------------------------------------------------------------------------------------


def _filled(position: int) -> Builtin:
    """full(shape, value, type), full_like(tensor, value, type), zeros_like(tensor, type)."""

    def run(m: Machine, c: Args) -> Any:
        like = c.get(0)
        dtype = next((v.name for v in (*c.items, *c.keywords.values()) if isinstance(v, DType)), None)
        known = like.dt if isinstance(like, Num) else like.type.dt if isinstance(like, Ptr) else "f32"
        return m.ctypes.convert(c.get(position, "fill_value") if position else 0, scalar(dtype or known), c.site)

    return run


def _operation(value: object) -> str:
    name = value.path.rpartition(".")[2].lower() if isinstance(value, Sym) else ""
    return "max" if "max" in name else "min" if "min" in name else "add" if name in ("add", "sum") else ""


def _combined(m: Machine, value: object, how: object, c: Args) -> Value:
    """All lanes' values under an operation."""
    operation = _operation(how)
    if not isinstance(value, Num):
        return value
    if operation in ("max", "min"):
        return m.numbers.beyond(value, c.site, 1.0 if operation == "max" else -1.0)
    return m.numbers.reduced(value, c.site) if operation else mathematics.combined(m, value, how, c)


def _reduce(m: Machine, c: Args) -> Value:
    """values.reduce(operation, initial value, profile)."""
    how, initial = c.get(1, "op"), c.get(2, "init_val")
    made = _combined(m, held(m, c.get(0), c.site), how, c)
    if not isinstance(initial, Num) or not isinstance(made, Num) or not initial.src:
        return made
    if _operation(how) == "add":
        return m.numbers.add(initial, made, c.site + 1)
    pair = Args([initial, made], {}, c.site + 1, c.node, c.frame)
    return mathematics.extreme(-1.0 if _operation(how) == "min" else 1.0)(m, pair)


def _warp_reduction(m: Machine, c: Args) -> Value:
    name = getattr(c.node.func, "name", "")
    how = c.get(1, "op") if name == "warp_reduction" else Sym(name.replace("warp_reduction_", "x."))
    return _combined(m, c.get(0), how, c)


def _packed(operation: str) -> Builtin:
    def run(m: Machine, c: Args) -> Any:
        columns = [v if isinstance(v, tuple) else (v, v) for v in c.items[:3]]
        made = []
        for i, items in enumerate(zip(*columns, strict=False)):
            one = Args(list(items), {}, c.site + i, c.node, c.frame)
            made.append(mathematics.math_builtin(operation)(m, one))  # type: ignore[misc]
        return tuple(made)

    return run


def _range(m: Machine, c: Args) -> Value:
    items = c.items
    return Range(items[0], items[1], items[2] if len(items) > 2 else 1) if len(items) > 1 else Range(0, c.get(0), 1)


def _origin(m: Machine, c: Args) -> Value:
    return (0, 0, 0)


def _thread(m: Machine, c: Args) -> Any:
    count = m.block[0]
    return lanes(0, count) if isinstance(count, int) and count > 1 and not m.lane else m.lane


def _thread_index(m: Machine, c: Args) -> Value:
    return (_thread(m, c), 0, 0)


def _in_warp(op: str) -> Builtin:
    def run(m: Machine, c: Args) -> Any:
        return ops.integers(op, _thread(m, c), 32, True)

    return run


def _threads(m: Machine, c: Args) -> Value:
    return m.block


def _blocks(m: Machine, c: Args) -> Value:
    return m.grid


def _ceil_div(m: Machine, c: Args) -> Value:
    a, b = c.get(0), c.get(1)
    return -(-a // b) if isinstance(a, int) and isinstance(b, int) and b else UNKNOWN


def _argument(m: Machine, c: Args) -> Value:
    """What a partition is of: the first argument of the method."""
    return c.get(1)


def _true(m: Machine, c: Args) -> Value:
    """Predicates of bounds: inside."""
    return True


FUNCTIONS: dict[str, Builtin] = spelled(
    OPERATIONS,
    "cute",
    {
        "view": mathematics.same, "make_pointer": mathematics.same, "make_tensor": mathematics.same,
        "recast": mathematics.same, "same": mathematics.same,
        "allocate_registers": _registers, "allocate_registers_like": _registers_like, "allocate_shared": _shared,
        "allocate_tensor_memory": _shared, "copy_by_atom": _copy(1), "copy": _copy(0), "copy_masked": _copy(1),
        "full": _filled(1), "zeros_like": _filled(0), "where": mathematics.select, "range": _range,
        "ceil_div": _ceil_div, "predicate": _true, "block_indices": _origin, "thread_index": _thread_index,
        "lane_index": _in_warp("%"), "warp_index": _in_warp("/"), "block_in_cluster": lambda m, c: 0,
        "block_sizes": _threads, "grid_sizes": _blocks, "shuffle": mathematics.other_lane(0),
        "warp_reduction": _warp_reduction, "atomic_add": mathematics.atomic_add, "packed_add": _packed("add"),
        "packed_sub": _packed("sub"), "packed_mul": _packed("mul"), "packed_fma": _packed("fma"),
        "size": mathematics.unknown, "layout": mathematics.unknown, "layout_of_threads": mathematics.unknown,
        "coordinates": mathematics.unknown, "copy_atom": mathematics.unknown, "check": mathematics.nothing,
        "barrier": mathematics.nothing,
    },
)  # fmt: skip

METHODS: dict[str, Builtin] = {
    "to": to_type,
    "load": _load, "store": _store, "fill": fill, "reduce": _reduce, "allocate": _allocate,
    **named("allocate_tensor allocate_array", _shared),
    **named("partition_S partition_D partition_A partition_B partition_C retile retile_S retile_D", _argument),
    **named("get_slice get_tensor data_ptr align broadcast_to reshape ir_value", mathematics.same),
}  # fmt: skip


class CuteDialect(TensorDialect):
    """CuTe DSL's functions and methods."""

    packages = ("cutlass",)
    functions = FUNCTIONS
    methods = METHODS

    def element_type(self, path: str, name: str) -> str | None:
        """The element type that `name`, such as `Float32`, stands for in the module `path`; None for other names."""
        return dtypes.from_cutlass(name) if path.partition(".")[0] == "cutlass" else None

    def attribute(self, m: Machine, value: object, name: str, frame: Frame) -> Any:
        """The value of an attribute, such as `cute.arch.WARP_SIZE`; None where the language adds nothing to it."""
        own = isinstance(value, Sym) and value.path.partition(".")[0] == "cutlass"
        return 32 if own and name == "WARP_SIZE" else super().attribute(m, value, name, frame)


DIALECT = CuteDialect()
