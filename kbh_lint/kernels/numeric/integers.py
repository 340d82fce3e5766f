"""Whole numbers of an evaluated kernel, as wide as their types: what wraps around, which type an operation has.

A plain `int` is one of C's `int`, or of Python; other types are subclasses of it, which all else reads as numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from kbh_lint.base import dtypes
from kbh_lint.base.values import UNKNOWN


class Typed(int):
    """A whole number of a type other than `int`."""

    dt = "i64"


class Lane(Typed):
    """A number that lanes (threads of a block, elements of a tile) have different ones of: ours, and `of` for others.

    `count` lanes there are, ours is the first; `size` is how many operations `of` does.
    """

    dt = "i32"
    count = 1
    size = 0
    of: Callable[[int], int]

    @staticmethod
    def made(value: int, dt: str, count: int, of: Callable[[int], int], size: int = 0) -> Lane:
        lane = Lane(typed(value, dt))
        lane.dt, lane.count, lane.of, lane.size = dt, count, of, size
        return lane

    def others(self) -> list[int]:
        """Some other lanes: neighbours, the first and the last of warps, and the last of all."""
        some = (1, 31, 32, 64, 96, 128, 256, 512, self.count - 32, self.count - 1)
        return [lane for lane in dict.fromkeys(some) if 0 < lane < self.count]


def lanes(first: int, count: int, dt: str = "i32") -> Lane:
    """The numbers of lanes, from `first` on."""
    return Lane.made(first, dt, count, lambda lane: typed(first + lane, dt))


def elsewhere(test: Callable[[int, int], Any], a: int, b: int = 0) -> Elsewhere | None:
    """The lane in which a test of two numbers holds that fails in ours; None where it fails in all."""
    lane = a if isinstance(a, Lane) else b
    others = lane.others() if isinstance(lane, Lane) else []
    return next((Elsewhere.at(n) for n in others if test(in_lane(a, n), in_lane(b, n)) is True), None)


def in_lane(value: int, lane: int) -> int:
    """What another lane has for a number."""
    return value.of(lane) if isinstance(value, Lane) else value


class Elsewhere(int):
    """A condition that does not hold in our lane but in another one."""

    lane = 0

    @staticmethod
    def at(lane: int) -> Elsewhere:
        found = Elsewhere(0)
        found.lane = lane
        return found


_TYPED: dict[str, type[Typed]] = {
    dt: type(dt, (Typed,), {"dt": dt}) for dt in ("i8", "u8", "i16", "u16", "u32", "i64", "u64")
}
_SIZE = 64
_RANKS = ("i32", "u32", "i64", "u64")  # of two types an operation has the later one
_BITWISE: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip


def converted(value: int, dt: str) -> int:
    """A number as another type, in all lanes."""
    if not isinstance(value, Lane):
        return typed(value, dt)
    return Lane.made(value, dt, value.count, lambda lane: typed(value.of(lane), dt), value.size + 1)


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
    found = _binary(op, a, b)
    lane = a if isinstance(a, Lane) else b
    size = 1 + sum(v.size for v in (a, b) if isinstance(v, Lane))
    if not isinstance(lane, Lane) or found is UNKNOWN or size > _SIZE:
        return found

    def of(other: int) -> int:
        return _known(_binary(op, in_lane(a, other), in_lane(b, other)))

    return Lane.made(found, type_of(found), lane.count, of, size)


def _known(value: object) -> int:
    return value if isinstance(value, int) else 0


def _binary(op: str, a: int, b: int) -> Any:
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
