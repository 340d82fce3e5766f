"""Numbers of C++ as a type holds them."""

from __future__ import annotations

import math
from typing import Any

from kbh_lint.base import dtypes


def held(value: object, dtype: str | None) -> Any:
    """A number as a variable of an element type holds it: whole numbers modulo two to its width, fractions cut off,
    truths of anything. What is no number, or goes into a floating-point type, is itself."""
    if dtype not in dtypes.INTS or not isinstance(value, (int, float)):
        return value
    if dtype == "bool":
        return value != 0
    if isinstance(value, float):
        if not math.isfinite(value):
            return value
        value = int(value)
    bits = dtypes.BITS[dtype]
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if dtype.startswith("i") and low >> (bits - 1) else low
