"""Whole numbers of an evaluated kernel: those of C++, or of Python, and what lanes have different ones of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbh_lint.base.values import UNKNOWN
from kbh_lint.cpp import integers
from kbh_lint.cpp.integers import Typed, alike, common, negated, promoted, saturated, type_of, typed

__all__ = [
    "Elsewhere", "Lane", "Typed", "alike", "binary", "common", "converted", "elsewhere", "in_lane", "lanes", "negated",
    "promoted", "saturated", "type_of", "typed",
]  # fmt: skip


class Lane(Typed):
    """An integer that differs between lanes (threads of a block, elements of a tile): this is ours, and `of(lane)` is
    another's.

    There are `count` lanes, of which ours is the first; computing `of` takes `size` operations.
    """

    dt = "i32"
    count = 1
    size = 0
    of: Callable[[int], int]

    @staticmethod
    def made(value: int, dt: str, count: int, of: Callable[[int], int], size: int = 0) -> Lane:
        """An integer that differs between `count` lanes: `value` in ours, `of(lane)` in another. Computing that takes
        `size` operations."""
        lane = Lane(typed(value, dt))
        lane.dt, lane.count, lane.of, lane.size = dt, count, of, size
        return lane

    def others(self) -> list[int]:
        """A sample of the other lanes: neighbours, the first and last of warps, and the last one."""
        some = (1, 31, 32, 64, 96, 128, 256, 512, self.count - 32, self.count - 1)
        return [lane for lane in dict.fromkeys(some) if 0 < lane < self.count]


def lanes(first: int, count: int, dt: str = "i32") -> Lane:
    """The integer that is `first` in our lane and one more in each lane after it, over `count` lanes."""
    return Lane.made(first, dt, count, lambda lane: typed(first + lane, dt))


def elsewhere(test: Callable[[int, int], Any], a: int, b: int = 0) -> Elsewhere | None:
    """A lane other than ours in which `test(a, b)` holds; None if it holds in none that was tried. For tests that fail
    in our lane."""
    lane = a if isinstance(a, Lane) else b
    others = lane.others() if isinstance(lane, Lane) else []
    return next((Elsewhere.at(n) for n in others if test(in_lane(a, n), in_lane(b, n)) is True), None)


def in_lane(value: int, lane: int) -> int:
    """The number that `value` is in another lane."""
    return value.of(lane) if isinstance(value, Lane) else value


class Elsewhere(int):
    """The truth of a condition that fails in our lane but holds in another."""

    lane = 0

    @staticmethod
    def at(lane: int) -> Elsewhere:
        """The condition, false in our lane, that holds in `lane`."""
        found = Elsewhere(0)
        found.lane = lane
        return found


_SIZE = 64


def converted(value: int, dt: str) -> int:
    """`value` converted to the integer type `dt`, in all lanes."""
    if not isinstance(value, Lane):
        return typed(value, dt)
    return Lane.made(value, dt, value.count, lambda lane: typed(value.of(lane), dt), value.size + 1)


def binary(op: str, a: int, b: int) -> Any:
    """The value of `a op b` by the rules of C, in all lanes; UNKNOWN where it is undefined."""
    found = _binary(op, a, b)
    lane = a if isinstance(a, Lane) else b
    size = 1 + sum(v.size for v in (a, b) if isinstance(v, Lane))
    if not isinstance(lane, Lane) or found is UNKNOWN or size > _SIZE:
        return found

    def of(other: int) -> int:
        """The value in the lane `other`."""
        return _known(_binary(op, in_lane(a, other), in_lane(b, other)))

    return Lane.made(found, type_of(found), lane.count, of, size)


def _known(value: object) -> int:
    return value if isinstance(value, int) else 0


def _binary(op: str, a: int, b: int) -> Any:
    found = integers.binary(op, a, b)
    return UNKNOWN if found is None else found
