"""Numbers in kernels that are written in Python: Python's own functions, those of `math`, and conversions."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes
from kbh_lint.base.values import UNKNOWN, DType, Sym, Value
from kbh_lint.kernels.numeric import math as mathematics
from kbh_lint.kernels.numeric import ops
from kbh_lint.kernels.numeric.builtins import Args, Builtin
from kbh_lint.kernels.numeric.ctypes import scalar
from kbh_lint.kernels.numeric.numbers import EXP, Num, literal
from kbh_lint.kernels.numeric.state import Bits, Ptr, Range
from kbh_lint.ops.catalogue import OPERATIONS
from kbh_lint.ops.operation import spelled

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine


def named_type(value: object) -> str | None:
    """The name of the element type that a value stands for; None for other values."""
    if isinstance(value, DType):
        return value.name
    return dtypes.from_triton(value.path.rsplit(".", 1)[-1]) if isinstance(value, Sym) else None


def to_type(m: Machine, c: Args) -> Value:
    """The value of `x.to(dtype)` or `tl.cast(x, dtype)`."""
    value, dt = c.get(0, "input"), named_type(c.get(1, "dtype"))
    bitcast = c.get(3, "bitcast", False)
    if isinstance(value, Ptr) or dt is None:
        return value
    if bitcast is True:
        return _bits(m, value, dt, c)
    if isinstance(value, Bits):
        return ops.lowest(value, dtypes.BITS.get(dt, 32))
    return m.ctypes.convert(value, scalar(dt), c.site)


def _bits(m: Machine, value: object, dt: str, c: Args) -> Value:
    if dt not in dtypes.FLOATS:
        return Bits(value) if isinstance(value, Num) else value
    if isinstance(value, Num) or isinstance(value, Bits) and value.value is not None:
        return value.value if isinstance(value, Bits) else value
    return m.numbers.data(c.site, dt, EXP)


def counted(m: Machine, c: Args) -> Value:
    """The value of `range(...)`."""
    items = c.items
    if len(items) < 2:
        return Range(0, c.get(0), 1)
    return Range(items[0], items[1], items[2] if len(items) > 2 else c.keywords.get("step", 1))


def _clamp(m: Machine, c: Args) -> Value:
    low = Args([c.get(0), c.get(1, "min")], {}, c.site, c.node, c.frame)
    high = Args([mathematics.extreme(1.0)(m, low), c.get(2, "max")], {}, c.site, c.node, c.frame)
    return mathematics.extreme(-1.0)(m, high)


def _number(m: Machine, c: Args) -> Value:
    """Python's `float(...)`, also of text."""
    value = c.get(0)
    if isinstance(value, str):
        try:
            return literal(float(value))
        except ValueError:
            return UNKNOWN
    return value if isinstance(value, Num) else ops.number(value, m.numbers, c.site)


def _integer(m: Machine, c: Args) -> Value:
    value = m.ctypes.convert(c.get(0), scalar("i64"))
    return int(value) if isinstance(value, int) else value


def _length(m: Machine, c: Args) -> Value:
    value = c.get(0)
    return len(value) if isinstance(value, tuple | str) else UNKNOWN


def _log2(m: Machine, c: Args) -> Value:
    value = c.get(0)
    if isinstance(value, int):
        return literal(math.log2(value)) if value > 0 else UNKNOWN
    return mathematics.transcendental("log2")(m, c)


PYTHON: dict[str, Builtin] = {
    "range": counted, "float": _number, "int": _integer, "bool": mathematics.same, "len": _length,
    "min": mathematics.extreme(-1.0), "max": mathematics.extreme(1.0), "abs": mathematics.absolute,
    "isinstance": mathematics.unknown, "hasattr": mathematics.unknown, "getattr": mathematics.unknown,
    "type": mathematics.unknown, "print": mathematics.nothing, "tuple": mathematics.same, "list": mathematics.same,
}  # fmt: skip

FUNCTIONS: dict[str, Builtin] = spelled(
    OPERATIONS,
    "python",
    {
        "clamp": _clamp, "log2": _log2, "sigmoid": mathematics.sigmoid, "flip": mathematics.same,
        "gather": mathematics.same, "random": mathematics.unknown,
    },
)  # fmt: skip


@lru_cache(maxsize=1024)
def function(name: str) -> Builtin | None:
    """The function on numbers of this name; None for unknown names."""
    return FUNCTIONS.get(name) or mathematics.math_builtin(name)
