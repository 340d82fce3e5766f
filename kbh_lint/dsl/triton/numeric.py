"""Triton's functions and tensor methods, for one lane of a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import dtypes
from kbh_lint.base.values import UNKNOWN, Value
from kbh_lint.kernels.numeric import math as mathematics
from kbh_lint.kernels.numeric import ops, python
from kbh_lint.kernels.numeric.asm import inline_asm
from kbh_lint.kernels.numeric.builtins import Args, Builtin, named
from kbh_lint.kernels.numeric.ctypes import scalar
from kbh_lint.kernels.numeric.dialect import Dialect
from kbh_lint.kernels.numeric.integers import Elsewhere, lanes
from kbh_lint.kernels.numeric.numbers import Num, literal
from kbh_lint.kernels.numeric.python import counted, named_type, to_type
from kbh_lint.kernels.numeric.state import OTHER, Ptr
from kbh_lint.ops.catalogue import OPERATIONS
from kbh_lint.ops.operation import spelled

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine


def _load(m: Machine, c: Args) -> Value:
    pointer, other = c.get(0, "pointer"), c.get(2, "other", None)
    if ops.truth(c.get(1, "mask", True)) is False:
        return literal(0.0) if other is None else other
    if isinstance(pointer, Ptr):
        return m.read(pointer, c.site)
    return m.memory.fresh(OTHER, c.site)


def _store(m: Machine, c: Args) -> Value:
    pointer, value = c.get(0, "pointer"), c.get(1, "value")
    mask = c.get(2, "mask", None)
    mask = True if mask is None else UNKNOWN if isinstance(mask, Elsewhere) else ops.truth(mask)
    if mask is False:
        return None
    if isinstance(pointer, Ptr):
        m.unsure += mask is UNKNOWN
        m.write(pointer, value)
        m.unsure -= mask is UNKNOWN
    else:
        m.stores.append(("?", value.f if isinstance(value, Num) else None))
    return None


def _descriptor_store(m: Machine, c: Args) -> Value:
    pointer, value = c.get(0), c.get(2, "value")
    if isinstance(pointer, Ptr):
        m.write(pointer, value)
    return None


def _zeros(m: Machine, c: Args) -> Value:
    return _filled(m, 0, named_type(c.get(1, "dtype")), c)


def _full(m: Machine, c: Args) -> Value:
    return _filled(m, c.get(1, "value"), named_type(c.get(2, "dtype")), c)


def _zeros_like(m: Machine, c: Args) -> Value:
    like = c.get(0)
    return _filled(m, 0, like.dt if isinstance(like, Num) else None, c)


def _full_like(m: Machine, c: Args) -> Value:
    like = c.get(0)
    return _filled(m, c.get(1, "value"), like.dt if isinstance(like, Num) else None, c)


def _filled(m: Machine, value: object, dt: str | None, c: Args) -> Value:
    if dt is None:
        return value if isinstance(value, Num) else ops.number(value, m.numbers, c.site)
    return m.ctypes.convert(value, scalar(dt), c.site)


def _sum(m: Machine, c: Args) -> Value:
    dt = named_type(c.get(3, "dtype", None))
    if dt is not None and isinstance(c.items[0], Num):
        c.items[0] = m.numbers.cast(c.items[0], dt)
    return mathematics.lane_sum(m, c)


def _reduce(m: Machine, c: Args) -> Value:
    return mathematics.combined(m, c.get(0, "input"), c.get(2, "combine_fn"), c)


def _softmax(m: Machine, c: Args) -> Value:
    value = c.number(m, 0)
    if value is None:
        return UNKNOWN
    grown = m.numbers.exp(value)
    return m.numbers.div(grown, m.numbers.reduced(grown, c.site))


def _dot(m: Machine, c: Args) -> Value:
    a, b, acc = c.number(m, 0, "input"), c.number(m, 1, "other"), c.get(2, "acc", None)
    if a is None or b is None:
        return UNKNOWN
    product = m.numbers.perturbed(m.numbers.cast(m.numbers.mul(a, b), "f32"), c.site)
    if isinstance(acc, Num):
        return m.numbers.add(acc, product, c.site + 1)
    return product


def _split(m: Machine, c: Args) -> Value:
    value = c.get(0)
    if isinstance(value, tuple):
        return value
    return (value, ops.perturbed(value, m.numbers, c.site))


def _join(m: Machine, c: Args) -> Value:
    a, b = c.get(0), c.get(1)
    return b if ops.sources(b) and not ops.sources(a) else a


def _lane(m: Machine, c: Args) -> Value:
    first, end = c.get(0, "start", 0), c.get(1, "end")
    return lanes(first, end - first) if isinstance(first, int) and isinstance(end, int) and end > first else first


def _zero(m: Machine, c: Args) -> Value:
    return 0


def _programs(m: Machine, c: Args) -> Value:
    axis = c.get(0, "axis")
    return m.grid[axis] if isinstance(axis, int) and 0 <= axis < 3 else UNKNOWN


def _cdiv(m: Machine, c: Args) -> Value:
    a, b = c.get(0, "x"), c.get(1, "div")
    return -(-a // b) if isinstance(a, int) and isinstance(b, int) and b else UNKNOWN


def _power_of_2(m: Machine, c: Args) -> Value:
    n = c.get(0)
    return 1 << (n - 1).bit_length() if isinstance(n, int) and 0 < n < 1 << 62 else UNKNOWN


def _block_pointer(m: Machine, c: Args) -> Value:
    base = c.get(0, "base")
    return Ptr(base.mem, base.off, base.type) if isinstance(base, Ptr) else base


def _asm(m: Machine, c: Args) -> Value:
    return inline_asm(m, c)


FUNCTIONS: dict[str, Builtin] = {
    **spelled(
        OPERATIONS,
        "triton",
        {
            "program_id": _zero, "num_programs": _programs, "index_tile": _lane, "zeros": _zeros, "full": _full,
            "zeros_like": _zeros_like, "full_like": _full_like, "load": _load, "store": _store,
            "atomic_add": mathematics.atomic_add, "atomic": mathematics.unknown, "atomic_max": mathematics.larger(1.0),
            "atomic_min": mathematics.larger(-1.0), "atomic_exchange": mathematics.exchanged,
            "where": mathematics.select,
            "sum": _sum, "cumulative": _sum, "reduce": _reduce, "dot": _dot, "dot_scaled": _dot,
            "reduce_max": mathematics.lane_extreme(1.0), "reduce_min": mathematics.lane_extreme(-1.0),
            "softmax": _softmax, "cast": to_type, "split": _split, "join": _join, "range": counted, "ceil_div": _cdiv,
            "next_power_of_2": _power_of_2, "block_pointer": _block_pointer, "descriptor": _block_pointer,
            "assembly": _asm, "constexpr": mathematics.same, "advance": mathematics.same, "reshape": mathematics.same,
            "transpose": mathematics.same, "expand_dims": mathematics.same, "broadcast": mathematics.same,
            "ravel": mathematics.same, "sort": mathematics.same, "hint": mathematics.same,
            "argmax": mathematics.unknown, "check": mathematics.nothing, "sync": mathematics.nothing,
        },
    ),
    **python.FUNCTIONS,
    "tensor_descriptor": _block_pointer, "print": mathematics.nothing,
    **named("isinstance hasattr getattr type", mathematics.unknown),
}  # fmt: skip


METHODS: dict[str, Builtin] = {
    **{n: f for n, f in FUNCTIONS.items() if n not in ("load", "store", "reduce", "arange", "range")},
    "to": to_type, "load": _load, "store": _descriptor_store, "reduce": _reduce, "T": mathematics.same,
    "abs": mathematics.absolute, "exp": mathematics.exponential, "log": mathematics.transcendental("log"),
    "item": mathematics.same,
}  # fmt: skip


class TritonDialect(Dialect):
    """Triton's functions and methods."""

    packages = ("triton",)
    functions = FUNCTIONS
    methods = METHODS

    def element_type(self, path: str, name: str) -> str | None:
        """The element type that `name`, as in `tl.float32`, stands for in the module `path`; None for other names."""
        return dtypes.from_triton(name) if path == "triton.language" else None


DIALECT = TritonDialect()
