"""Whole numbers of C++ that know their type: what wraps around, which type an operation has, how numbers compare.

A plain `int` is one of C's `int`; other types are subclasses of it, which all else reads as numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeGuard

from kbh_lint.base import dtypes


class Typed(int):
    """A whole number of a type other than `int`."""

    dt = "i64"

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)  # what leaves the process is a number


_TYPED: dict[str, type[Typed]] = {
    dt: type(dt, (Typed,), {"dt": dt}) for dt in ("i8", "u8", "i16", "u16", "u32", "i64", "u64")
}
RANKS = ("i32", "u32", "i64", "u64")  # what small types are promoted to; of two an operation has the later one
_BITWISE: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
_WIDTHS = {"INT8": 8, "SCHAR": 8, "INT16": 16, "SHRT": 16, "INT": 32, "INT32": 32, "LONG": 64, "LLONG": 64, "INT64": 64}
# <climits> and <cstdint>
LIMITS: dict[str, int] = {
    **{f"{name}_MAX": (1 << bits - 1) - 1 for name, bits in _WIDTHS.items()},
    **{f"{name}_MIN": -(1 << bits - 1) for name, bits in _WIDTHS.items()},
    **{f"U{name}_MAX": (1 << bits) - 1 for name, bits in _WIDTHS.items()}, "SIZE_MAX": (1 << 64) - 1,
}  # fmt: skip
OPERATORS = frozenset({*_BITWISE, "<<", ">>", "/", "%"})


def typed(value: int, dt: str) -> int:
    """`value` as an integer of type `dt`: modulo 2 to the power of its width."""
    bits = dtypes.BITS.get(dt, 32)
    low = value & (1 << bits) - 1
    if dt[0] == "i" and low >> bits - 1:
        low -= 1 << bits
    kind = _TYPED.get(dt)
    return low if kind is None else kind(low)


def type_of(value: int) -> str:
    """The integer type of a number; for a plain Python integer the first of `int`, 64-bit signed and 64-bit unsigned
    that holds it."""
    if isinstance(value, Typed):
        return value.dt
    return "i32" if -(1 << 31) <= value < 1 << 31 else "i64" if -(1 << 63) <= value < 1 << 63 else "u64"


def promotion(dt: str) -> str:
    """The type to which C++ promotes an operand of the integer type `dt`: smaller types become `int`."""
    return dt if dt in RANKS else "i32"


def common_type(one: str, other: str) -> str:
    """The type in which C++ computes an operation on operands of two integer types."""
    return max(promotion(one), promotion(other), key=RANKS.index)


def promoted(value: int) -> str:
    """The type to which C++ promotes the number `value`."""
    return promotion(type_of(value))


def common(a: int, b: int) -> str:
    """The type in which C++ computes an operation on two numbers."""
    return common_type(type_of(a), type_of(b))


def saturated(value: float, dt: str) -> int:
    """A floating-point number converted to the integer type `dt`: its fraction is cut off, and a number out of range
    gives the end of the range, as on a GPU."""
    bits = dtypes.BITS.get(dt, 32)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dt[0] == "i" else (0, (1 << bits) - 1)
    return typed(min(max(int(value), low), high), dt)


def binary(op: str, a: int, b: int) -> int | None:
    """The value of `a op b` on integers; None where it is undefined, and for other operators."""
    if op in ("<<", ">>"):
        dt = promoted(a)
        if not 0 <= b < dtypes.BITS[dt]:
            return None
        return typed(int(a) << int(b) if op == "<<" else int(typed(a, dt)) >> int(b), dt)
    dt = common(a, b)
    a, b = int(typed(a, dt)), int(typed(b, dt))
    if op in ("/", "//", "%"):
        if b == 0:
            return None
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return typed(a - quotient * b if op == "%" else quotient, dt)
    found = _BITWISE.get(op)
    return None if found is None else typed(found(a, b), dt)


def negated(value: int, op: str = "-") -> int:
    """The value of `-value`, or of `~value` if `op` is "~"."""
    return typed(-int(value) if op == "-" else ~int(value), promoted(value))


def alike(a: int, b: int) -> tuple[int, int]:
    """The two numbers converted to their common type, as C++ compares them."""
    if not (isinstance(a, Typed) or isinstance(b, Typed)):
        return a, b
    dt = common(a, b)
    return int(typed(a, dt)), int(typed(b, dt))


def held(value: object, dtype: str | None) -> Any:
    """`value` converted to the integer type `dtype`: integers modulo 2 to its width, fractions cut off, `bool` by
    whether the number is zero. Values that are no numbers, and other types, leave it unchanged."""
    if dtype not in dtypes.INTS or not isinstance(value, (int, float)):
        return value
    if dtype == "bool":
        return value != 0
    if isinstance(value, float):
        if not math.isfinite(value):
            return value
        value = int(value)
    return typed(value, dtype)


def is_plain(value: object) -> TypeGuard[int]:
    """Whether a value is an integer of some type, and neither a bool nor of another subclass of int."""
    return type(value) is int or isinstance(value, Typed)
