"""Calls: to functions of the submission in place, to library functions by table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base.records import dataclass
from kbh_lint.base.values import UNKNOWN, Sym, Value
from kbh_lint.cpp import integers
from kbh_lint.kernels.numeric import integers as whole
from kbh_lint.kernels.numeric import ops
from kbh_lint.kernels.numeric.numbers import Num, literal
from kbh_lint.kernels.numeric.state import Frame, Method, Ptr

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
    **{name: whole.typed(value, integers.type_of(value)) for name, value in integers.LIMITS.items()},
    "UINT_MAX": whole.typed(-1, "u32"),
    "UINT32_MAX": whole.typed(-1, "u32"),
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

    def get(self, index: int, name: str = "", default: object = UNKNOWN) -> Any:
        """The argument called `name`, or else the one at position `index`; `default` if neither is given."""
        if name in self.keywords:
            return self.keywords[name]
        return self.items[index] if 0 <= index < len(self.items) else default

    def number(self, m: Machine, index: int, name: str = "") -> Num | None:
        """The argument called `name` or at position `index`, as a number; None where it cannot be one."""
        return ops.number(self.get(index, name), m.numbers, self.site + index % 8)


Builtin = Callable[["Machine", Args], Any]


def named(names: str, function: Builtin) -> dict[str, Builtin]:
    """A part of a table that maps each of `names`, separated by spaces, to `function`."""
    return dict.fromkeys(names.split(), function)


def constant(name: str) -> Value:
    """The value of a C++ name that the text does not define: a known constant, else a symbol."""
    last = name.rsplit("::", 1)[-1]
    if last in _CONSTANTS:
        return literal(_CONSTANTS[last])
    return _INTEGERS[last] if last in _INTEGERS else Sym(name)


def launch_dim(m: Machine, name: str, axis: str) -> Value:
    """The value of `threadIdx.x`, `blockDim.y` and the like, for the first thread of the first block."""
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


def either(a: object, b: object) -> Value:
    """One of two values when the condition between them is unknown: the one that depends on data."""
    return b if ops.sources(b) and not ops.sources(a) else a


def unknown_call(m: Machine, what: str, packed: Args) -> Value:
    """The result of a function that is not known: a value that depends on the same data as its arguments. Recorded as
    unread if there is any such data; UNKNOWN otherwise."""
    src = 0
    for value in (*packed.items, *packed.keywords.values()):
        src |= ops.sources(value)
        if isinstance(value, Ptr) and value.mem.kind != "param" and value.mem.written():
            src |= ops.sources(value.mem.last)
    if not src:
        return UNKNOWN
    m.note(f"{what} is not followed", packed.node)
    return m.numbers.data(packed.site, "f32", src)
