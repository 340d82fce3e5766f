"""cuTile's operations for one element of a tile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base.values import UNKNOWN, Sym, Value
from kbh_lint.dsl.cutile.types import element
from kbh_lint.kernels.numeric import math as mathematics
from kbh_lint.kernels.numeric import ops, python
from kbh_lint.kernels.numeric.builtins import Args, Builtin
from kbh_lint.kernels.numeric.ctypes import scalar
from kbh_lint.kernels.numeric.dialect import Dialect
from kbh_lint.kernels.numeric.numbers import Num
from kbh_lint.kernels.numeric.state import OTHER, Ptr
from kbh_lint.ops.catalogue import OPERATIONS
from kbh_lint.ops.operation import spelled

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine


def _load(m: Machine, c: Args) -> Value:
    array = c.get(0, "array")
    return m.read(array, c.site) if isinstance(array, Ptr) else m.memory.fresh(OTHER, c.site)


def _store(name: str) -> Builtin:
    def run(m: Machine, c: Args) -> Any:
        array, value = c.get(0, "array"), c.get(2, name)
        if isinstance(array, Ptr):
            m.write(array, value)
        else:
            m.stores.append(("?", value.f if isinstance(value, Num) else None))
        return None

    return run


def _type(value: object) -> str | None:
    return element(value.path.rpartition(".")[2]) if isinstance(value, Sym) else python.named_type(value)


def _filled(m: Machine, value: object, dt: str | None, c: Args) -> Value:
    return m.ctypes.convert(value, scalar(dt or "f32"), c.site)


def _mma(m: Machine, c: Args) -> Value:
    a, b, acc = c.number(m, 0, "x"), c.number(m, 1, "y"), c.get(2, "acc", None)
    if a is None or b is None:
        return UNKNOWN
    product = m.numbers.perturbed(m.numbers.cast(m.numbers.mul(a, b), "f32"), c.site)
    return m.numbers.add(acc, product, c.site + 1) if isinstance(acc, Num) else product


def _cast(m: Machine, c: Args) -> Value:
    value, dt = c.get(0, "x"), _type(c.get(1, "dtype"))
    return value if dt is None or isinstance(value, Ptr) else m.ctypes.convert(value, scalar(dt), c.site)


def _ceil_div(m: Machine, c: Args) -> Value:
    a, b = c.get(0, "x"), c.get(1, "y")
    return -(-a // b) if isinstance(a, int) and isinstance(b, int) and b else UNKNOWN


def _zero(m: Machine, c: Args) -> Value:
    return 0


def _combined(m: Machine, c: Args) -> Value:
    return mathematics.combined(m, c.get(0, "x"), c.get(2, "func"), c)


def _operator(symbol: str) -> Builtin:
    def run(m: Machine, c: Args) -> Any:
        return ops.arithmetic(symbol, c.get(0), c.get(1), m.numbers, c.site, False)

    return run


FUNCTIONS: dict[str, Builtin] = {
    **spelled(
        OPERATIONS,
        "cutile",
        {
            "load": _load, "gather_elements": _load, "store": _store("tile"), "scatter_elements": _store("value"),
            "ceil_div": _ceil_div, "program_id": _zero, "index_tile": _zero,
            "full": lambda m, c: _filled(m, c.get(1, "fill_value"), _type(c.get(2, "dtype", None)), c),
            "zeros": lambda m, c: _filled(m, 0, _type(c.get(1, "dtype", None)), c),
            "ones": lambda m, c: _filled(m, 1, _type(c.get(1, "dtype", None)), c),
            "sum": mathematics.lane_sum, "cumulative": mathematics.lane_sum, "where": mathematics.select,
            "reduce": _combined,
            "reduce_max": mathematics.lane_extreme(1.0), "reduce_min": mathematics.lane_extreme(-1.0), "dot": _mma,
            "cast": _cast, "reshape": mathematics.same, "transpose": mathematics.same,
            "expand_dims": mathematics.same, "extract": mathematics.same, "constexpr": mathematics.same,
            "hint": mathematics.same, "argmax": mathematics.unknown, "atomic": mathematics.unknown,
            "check": mathematics.nothing, "sync": mathematics.nothing,
        },
        {"arithmetic": lambda op: _operator(op.symbol)},
    ),
    **python.FUNCTIONS,
}  # fmt: skip


METHODS: dict[str, Builtin] = {
    **{name: found for name, found in FUNCTIONS.items() if name not in ("load", "store", "arange")},
    "astype": _cast, "item": mathematics.same,
}  # fmt: skip


class TileDialect(Dialect):
    """cuTile's functions and methods."""

    packages = ("cuda",)
    functions = FUNCTIONS
    methods = METHODS

    def element_type(self, path: str, name: str) -> str | None:
        """The element type that `name`, such as `float32`, stands for in the module `path`; None for other names."""
        return element(name) if path in ("cuda.tile", "numpy") else None


DIALECT = TileDialect()
