"""Whole numbers of an evaluated kernel, as wide as their types: what wraps around, which type an operation has.

A plain `int` is one of C's `int`, or of Python; other types are subclasses of it, which all else reads as numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from kbh_lint import dtypes
from kbh_lint.values import UNKNOWN


class Typed(int):
    """A whole number of a type other than `int`."""

    dt = "i64"


class Lane(int):
    """The number of our lane among `count` of them, from our own on."""

    count = 1

    @staticmethod
    def of(first: int, count: int) -> Lane:
        made = Lane(first)
        made.count = count
        return made

    def last(self) -> int:
        return self + self.count - 1


class Elsewhere(int):
    """A condition that does not hold in our lane but in another one."""


_TYPED: dict[str, type[Typed]] = {
    dt: type(dt, (Typed,), {"dt": dt}) for dt in ("i8", "u8", "i16", "u16", "u32", "i64", "u64")
}
_RANKS = ("i32", "u32", "i64", "u64")  # of two types an operation has the later one
_BITWISE: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip


def typed(value: int, dt: str) -> int:
    """`value` modulo two to the width of an integer type."""
    bits = dtypes.BITS.get(dt, 32)
    low = value & (1 << bits) - 1
    if dt[0] == "i" and low >> bits - 1:
        low -= 1 << bits
    kind = _TYPED.get(dt)
    return low if kind is None else kind(low)


def type_of(value: int) -> str:
    """The type of a number; of a plain one the first of `int` and its wider kin that holds it."""
    if isinstance(value, Typed):
        return value.dt
    return "i32" if -(1 << 31) <= value < 1 << 31 else "i64" if -(1 << 63) <= value < 1 << 63 else "u64"


def promoted(value: int) -> str:
    """The type that an operation takes a number as: narrow ones are `int`."""
    dt = type_of(value)
    return dt if dt in _RANKS else "i32"


def common(a: int, b: int) -> str:
    """The type of an operation on two numbers."""
    return max(promoted(a), promoted(b), key=_RANKS.index)


def saturated(value: float, dt: str) -> int:
    """A conversion from a floating-point number, which stops at the ends of the type."""
    bits = dtypes.BITS.get(dt, 32)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dt[0] == "i" else (0, (1 << bits) - 1)
    return typed(min(max(int(value), low), high), dt)


def binary(op: str, a: int, b: int) -> Any:
    """`a op b` in C; UNKNOWN where it has no meaning."""
    if op in ("<<", ">>"):
        dt = promoted(a)
        if not 0 <= b < dtypes.BITS[dt]:
            return UNKNOWN
        return typed(int(a) << int(b) if op == "<<" else int(typed(a, dt)) >> int(b), dt)
    dt = common(a, b)
    a, b = int(typed(a, dt)), int(typed(b, dt))
    if op in ("/", "//", "%"):
        if b == 0:
            return UNKNOWN
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return typed(a - quotient * b if op == "%" else quotient, dt)
    found = _BITWISE.get(op)
    return UNKNOWN if found is None else typed(found(a, b), dt)


def negated(value: int, op: str = "-") -> int:
    """`-value`, or `~value`."""
    return typed(-int(value) if op == "-" else ~int(value), promoted(value))


def alike(a: int, b: int) -> tuple[int, int]:
    """Two numbers as a comparison sees them."""
    if not (isinstance(a, Typed) or isinstance(b, Typed)):
        return a, b
    dt = common(a, b)
    return int(typed(a, dt)), int(typed(b, dt))
