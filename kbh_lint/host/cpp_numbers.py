"""Whole numbers of C++: what a type of some width keeps of one."""

from __future__ import annotations

from typing import Any

from kbh_lint import dtypes
from kbh_lint.host.values.tensors import Unknown


def wrapped(value: Any, dtype: str | None) -> Any:
    """A whole number as a variable of an integer type holds it: modulo two to its width."""
    if type(value) is not int or dtype not in dtypes.INTS or dtype == "bool":
        return value
    bits = dtypes.BITS[dtype]
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if dtype.startswith("i") and low >> (bits - 1) else low


def divided(op: str, left: int, right: int) -> Any:
    """`/` and `%` of whole numbers, which truncate."""
    if right == 0:
        return Unknown((), "a division by zero")
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if op == "/" else left - quotient * right
