"""What is known of values that are not: what they were computed from, whether two are the same, their order."""

from __future__ import annotations

from collections.abc import Set
from itertools import islice
from typing import TYPE_CHECKING, Any

from kbh_lint.base.values import Value
from kbh_lint.host.values import checksums, taint
from kbh_lint.host.values.objects import ProcessNumber
from kbh_lint.host.values.tensors import Content, Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


MAX_ELEMENTS = 4096  # of a set, that are looked at
MAX_PACKED = 64  # as many as a kernel has arguments


class Packed(Unknown):
    """An array of the host with a few numbers, `numpy.array([x.data_ptr()])`, and its address. To the program it is a
    value that nobody knows; `numbers` are what lies there, for a C function that is given the address."""

    __slots__ = ("numbers",)
    numbers: tuple[Value, ...]

    def like(self, contents: tuple[Content, ...] = (), made: int = 0) -> Unknown:
        """Returns its address for `array.ctypes.data`, and itself for any other attribute."""
        return self


def packed(interp: Run, given: Value, why: str) -> Packed | None:
    """Returns the array of numbers that are given, or of addresses of such arrays; None for all else."""
    items = given if isinstance(given, (list, tuple)) else [given]
    if not 0 < len(items) <= MAX_PACKED or not all(isinstance(one, (int, float, Packed)) for one in items):
        return None
    made = Packed(interp.contents_of(list(items)), why, origin=why)
    object.__setattr__(made, "numbers", tuple(items))
    return made


def merged(
    interp: Run, *values: Value, why: str = "", like: Unknown | None = None, likely: bool = False, reading: str = "",
    ends: tuple[float, float] | None = None,
) -> Unknown:  # fmt: skip
    """Returns an unknown computed from all of `values`. Unless one of them is tainted, what is known of `like` holds of
    it, too; `ends` is its range."""
    contents: dict[Content, None] = {}  # in order
    asked = taint.source(*values)
    made = 0
    for value in values:
        if isinstance(value, Unknown):
            made = max(made, value.made)
        elif isinstance(value, Tensor):
            made = interp.trace.round
        contents.update(dict.fromkeys(interp.contents_of(value)))
    if asked is not None:
        return Unknown(tuple(contents), str(asked), made=made, taint=asked)
    if like is not None:
        return like.like(tuple(contents), made)
    return Unknown(tuple(contents), why, ends, made=made, likely=likely, reading=reading)


def same_unknown(interp: Run, left: Value, right: Value) -> Value:
    """Compares two unknowns. Values read from one storage before and after it changed are taken to differ, so that a
    key tells the change."""
    if isinstance(left, Unknown) and isinstance(right, Unknown):
        known = checksums.same_value(interp, left, right)
        if known is not None:
            return known
        for a in left.contents:
            for b in right.contents:
                if a is not b and a.storage is b.storage:
                    return False
    if left is None or right is None:
        return False
    return merged(interp, left, right, why="a comparison")


def of_set(value: Set[object]) -> list[Unknown]:
    """Returns what is not known of a set's elements: any of them may be the same as another."""
    return [item for item in islice(value, MAX_ELEMENTS) if isinstance(item, Unknown)]


def by_chance(*values: Value) -> Unknown | None:
    """Returns an unknown in place of numbers of which one differs in each process; None where none does."""
    if any(type(value) is ProcessNumber and value.computed for value in values):
        return Unknown((), "a number of this process")
    return None


def of_process(value: Value) -> Any:
    """Returns a value, or an unknown in place of one that may differ in each process."""
    unknown = by_chance(value)
    return value if unknown is None else unknown


def by_range(op: str, left: Value, right: Value) -> bool | None:
    """Returns the result of a comparison that is the same for every legal input; None otherwise."""
    ends = []
    for value in (left, right):
        if isinstance(value, Unknown):
            ends.append(value.range)
        else:
            ends.append((value, value) if isinstance(value, (int, float)) else None)
    a, b = ends
    if a is None or b is None:
        return None
    if op in ("<", "<="):
        return True if a[1] < b[0] else False if a[0] > b[1] else None
    return True if a[0] > b[1] else False if a[1] < b[0] else None
