"""TileLang's operations for one lane: buffers are memory, tile operations work on the element where a region starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import UNKNOWN, DType, Sym, Value
from kbh_lint.dsl.tensors.numeric import TensorDialect, at, fill, held, opens
from kbh_lint.dsl.tilelang.kernel import PACKAGE, REGIONS
from kbh_lint.kernels.numeric import math as mathematics
from kbh_lint.kernels.numeric import ops
from kbh_lint.kernels.numeric.builtins import Args, Builtin
from kbh_lint.kernels.numeric.ctypes import scalar
from kbh_lint.kernels.numeric.numbers import Num, literal
from kbh_lint.kernels.numeric.state import Frame, Memory, Ptr, Range
from kbh_lint.ops.catalogue import OPERATIONS
from kbh_lint.ops.operation import spelled

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine

_LANES = 4  # elements of a parallel loop that are run


def _dtype(value: object) -> str | None:
    if isinstance(value, DType):
        return value.name
    return dtypes.from_tilelang(value) if isinstance(value, str) else None


def _allocated(kind: str) -> Builtin:
    def run(m: Machine, c: Args) -> Any:
        held = scalar(_dtype(c.get(1, "dtype")) or "f32")
        return Ptr(Memory(kind, kind, held), 0, held)

    return run


def _variable(m: Machine, c: Args) -> Value:
    return m.ctypes.convert(c.get(1, "init", 0), scalar(_dtype(c.get(0, "dtype")) or "f32"), c.site)


def _copy(m: Machine, c: Args) -> Value:
    target = c.get(1, "dst")
    value = held(m, c.get(0, "src"), c.site)
    if isinstance(target, Ptr):
        m.write(target, value)
    else:
        m.note("a copy to memory that is not known", c.node)
    return None


def _reduced(how: str) -> Builtin:
    """reduce_sum(buffer, result, dim, clear)."""

    def run(m: Machine, c: Args) -> Any:
        value, target = held(m, c.get(0), c.site), c.get(1, "out")
        if not isinstance(value, Num) or not isinstance(target, Ptr):
            return None
        made = m.numbers.reduced(value, c.site) if how == "sum" else m.numbers.beyond(value, c.site, _SIGN[how])
        if c.get(3, "clear", True) is False:
            old = m.read(target, c.site + 1)
            if how == "sum" and isinstance(old, Num):
                made = m.numbers.add(old, made, c.site + 2)
            elif isinstance(old, Num):
                pair = Args([old, made], {}, c.site + 2, c.node, c.frame)
                made = mathematics.extreme(_SIGN[how])(m, pair)
        m.write(target, made)
        return None

    return run


def _gemm(m: Machine, c: Args) -> Value:
    a, b, target = held(m, c.get(0, "A"), c.site), held(m, c.get(1, "B"), c.site), c.get(2, "C")
    if isinstance(a, Num) and isinstance(b, Num) and isinstance(target, Ptr):
        product = m.numbers.perturbed(m.numbers.cast(m.numbers.mul(a, b), target.type.dt), c.site)
        m.write(target, ops.arithmetic("+", m.read(target, c.site + 1), product, m.numbers, c.site + 2, False))
    return None


def _loop(m: Machine, c: Args) -> Value:
    numbers = c.items[:3]
    return Range(*((0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1))[:3])


def _parallel(m: Machine, c: Args) -> Value:
    count = len(c.items)
    return tuple((i,) * count if count > 1 else i for i in range(_LANES))


def _indices(m: Machine, c: Args) -> Value:
    return (0,) * len(c.items) if len(c.items) > 1 else 0


def _ceil_div(m: Machine, c: Args) -> Value:
    a, b = c.get(0), c.get(1)
    return -(-a // b) if isinstance(a, int) and isinstance(b, int) and b else UNKNOWN


def _cast(m: Machine, c: Args) -> Value:
    """Cast(type, value) and cast(value, type)."""
    swapped = _dtype(c.get(0)) is not None
    value, wanted = (c.get(1), _dtype(c.get(0))) if swapped else (c.get(0), _dtype(c.get(1)))
    return m.ctypes.convert(held(m, value, c.site), scalar(wanted), c.site) if wanted else value


def _infinity(m: Machine, c: Args) -> Value:
    return literal(float("inf"))


_SIGN = {"max": 1.0, "min": -1.0, "absmax": 1.0}
FUNCTIONS: dict[str, Builtin] = {
    **spelled(
        OPERATIONS,
        "tilelang",
        {
            "allocate_shared": _allocated("shared"), "allocate_registers": _allocated("local"),
            "allocate_variable": _variable, "copy": _copy, "fill": fill, "gemm": _gemm, "sum": _reduced("sum"),
            "reduce_max": _reduced("max"), "reduce_min": _reduced("min"), "reduce_absmax": _reduced("absmax"),
            "atomic_add": mathematics.atomic_add, "range": _loop, "parallel": _parallel, "kernel_indices": _indices,
            "ceil_div": _ceil_div, "cast": _cast, "infinity": _infinity, "bound_index": lambda m, c: 0,
            "lane_index": lambda m, c: 0, "warp_index": lambda m, c: 0, "where": mathematics.select,
            "sync": mathematics.nothing, "check": mathematics.nothing, "annotation": mathematics.nothing,
        },
    ),
}  # fmt: skip


class TileDialect(TensorDialect):
    """TileLang's functions."""

    packages = (PACKAGE,)
    functions = FUNCTIONS

    def element_type(self, path: str, name: str) -> str | None:
        """The element type that `name`, as in `T.float32`, stands for in the module `path`; None for other names."""
        return dtypes.from_tilelang(name) if path.partition(".")[0] == PACKAGE else None

    def argument(self, m: Machine, node: ir.Expr, callee: object, frame: Frame) -> Any:
        """The place at which the region begins that an argument of a tile operation stands for; None for other
        arguments."""
        if not isinstance(node, ir.Index) or not isinstance(callee, Sym):
            return None
        if callee.path.rpartition(".")[2] not in REGIONS:
            return None
        base = m.expressions.evaluate(node.value, frame)
        if not isinstance(base, Ptr):
            return None
        index = m.expressions.evaluate(node.index, frame)
        return base if opens(index) else at(base, index, m.site(frame, node))


DIALECT = TileDialect()
