"""Which type numba infers for an operation."""

from __future__ import annotations

from kbh_lint.base import dtypes
from kbh_lint.base.values import Single
from kbh_lint.kernels.core.numbers import Numbers
from kbh_lint.kernels.core.value import LITERAL, V

_SMALL = frozenset(("i8", "u8", "i16", "u16", "bool"))  # whole numbers that fp32 holds


class InferredTypes(Numbers):
    """Infers types as numba does: an integer that fp32 may not hold exactly, or a constant with a point, makes an
    operation fp64."""

    def promote(self, op: str, a: V, b: V) -> str:
        x, y = _type(a), _type(b)
        if "?" in (x, y):
            return super().promote(op, a, b)
        if x in dtypes.INTS and y in dtypes.INTS:
            return "f64" if op == "/" else super().promote(op, a, b)
        for one, other in ((x, y), (y, x)):
            if one in dtypes.INTS and one not in _SMALL and other in dtypes.FLOATS:
                return other if op == "**" else "f64"
        return super().promote(op, a.with_(dtype=x), b.with_(dtype=y))


def _type(value: V) -> str:
    if value.dtype != LITERAL:
        return value.dtype
    if isinstance(value.const, Single):
        return value.const.dtype
    return "f64" if isinstance(value.const, float) else "i64"
