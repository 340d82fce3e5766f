"""What the compiler of Triton knows of the numbers in a tile along each axis, as its own analysis of axes says it.

It decides which loads it can make asynchronous: neighbours in memory under one bit of the mask. All is in powers of two
and a lower bound; None stands for a value of which nothing is known. What it cannot know is said by the first elements:
where these are no neighbours in one run, on some data, it does not know them to be any.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from zlib import crc32

from kbh_lint.base import dtypes
from kbh_lint.base.records import dataclass

ANY = 1 << 20  # a zero is a multiple of everything
_DRAWN = 20  # bits of the numbers that lie at places that are loaded, at most


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its `size`, in groups of how many numbers rise by one (`run`) or are equal (`same`), and what the first
    number of each such run is a multiple of (`by`)."""

    size: int
    run: int = 1
    same: int = 1
    by: int = 1


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile, or a number, which has no axes and is a multiple of `by`. `const` is its value at compile time; `late`
    says that it has none for certain. Pointers have the element type `dtype` and come from the parameter `root`.

    `first` are numbers that the first element and its neighbour along each axis have together in the first program, in
    the first iteration of every loop around, if there is such data as `loaded` draws. Where they are not `sure`, some
    of them are made of a number that stands for one that is not known.
    """

    axes: tuple[Axis, ...] = ()
    by: int = 1
    const: int | None = None
    late: bool = False
    dtype: str = ""
    root: str = ""
    first: tuple[int, ...] = (1,)
    sure: bool = False


def number(value: int) -> Tile:
    """A number that is known at compile time."""
    return Tile(by=multiple(value), const=value, first=(value,), sure=True)


def with_first(made: Tile | None, of: Callable[..., int], *parts: Tile | None) -> Tile | None:
    """The tile `made`, whose elements are what `of` gives for those of `parts`."""
    if made is None:
        return None
    first: tuple[int, ...] = ()
    firsts = [_first(part or Tile(), len(made.axes)) for part in parts]
    with suppress(ArithmeticError, ValueError):  # they may have other axes
        first = tuple(of(*numbers) for numbers in zip(*firsts, strict=True))
    sure = bool(first) and all(part is not None and part.sure for part in parts)
    return replace(made, first=first or (1,), sure=sure)


def _first(tile: Tile, rank: int) -> tuple[int, ...]:
    """The first elements of a tile, as one of so many axes."""
    return tile.first * (rank + 1) if len(tile.first) == 1 else tile.first


def quotient(a: int, b: int) -> int:
    """`a // b` as the language has it, which cuts off."""
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def multiple(value: int) -> int:
    """The largest power of two that divides `value`."""
    return min(value & -value or ANY, ANY)


def rising(start: int, size: int) -> Tile:
    """The tile of `tl.arange(start, start + size)`."""
    return Tile((Axis(size, multiple(size), 1, multiple(start)),), first=(start, start + (size > 1)), sure=True)


def loaded(places: Tile) -> Tile:
    """The numbers that lie at `places`: any, which are drawn here by the place."""
    bits = max(min(dtypes.BITS.get(places.dtype, _DRAWN) - 1, _DRAWN), 1)  # they are not below zero
    drawn = tuple(crc32(f"{places.root} {place}".encode()) >> (32 - bits) for place in places.first)
    return Tile(tuple(Axis(axis.size) for axis in places.axes), late=True, first=drawn, sure=places.sure)


def turned(tile: Tile, kept: list[bool]) -> Tile | None:
    """`tile[:, None]` and the like: where `kept` is false there is a new axis."""
    if sum(kept) != len(tile.axes):
        return None
    every = min((axis.by for axis in tile.axes), default=tile.by)
    by = 1 if any(axis.run > 1 for axis in tile.axes) else every
    left, (at, *along) = iter(tile.axes), _first(tile, len(tile.axes))
    axes = tuple(next(left) if one else Axis(1, 1, ANY, by) for one in kept)
    return replace(tile, axes=axes, first=(at, *(along.pop(0) if one else at for one in kept)))


def alike(a: Tile, b: Tile) -> list[tuple[Axis, Axis]] | None:
    """The axes of two tiles, broadcast to one shape; None where that is not possible."""
    rank = max(len(a.axes), len(b.axes))
    if len(a.axes) not in (0, rank) or len(b.axes) not in (0, rank):
        return None
    pairs: list[tuple[Axis, Axis]] = []
    for one, two in zip(a.axes or (None,) * rank, b.axes or (None,) * rank, strict=True):
        size = max(axis.size for axis in (one, two) if axis is not None)
        left, right = _spread(one, size, a.by), _spread(two, size, b.by)
        if left is None or right is None:
            return None
        pairs.append((left, right))
    return pairs


def _spread(axis: Axis | None, size: int, by: int) -> Axis | None:
    if axis is None:
        return Axis(size, 1, ANY, by)
    return axis if axis.size == size else Axis(size, 1, ANY, axis.by) if axis.size == 1 else None


def added(a: Tile, b: Tile) -> Tile | None:
    """The sum of two numbers or tiles, or of a pointer and offsets."""
    pairs = alike(a, b)
    if pairs is None or a.dtype and b.dtype:
        return None
    axes = []
    for one, two in pairs:
        run = max(min(one.run, two.same), min(one.same, two.run))
        by = min(axis.by if axis.run <= run else min(axis.by, run) for axis in (one, two))
        axes.append(Axis(one.size, run, min(one.same, two.same), by))
    const = a.const + b.const if a.const is not None and b.const is not None else None
    made = Tile(tuple(axes), min(a.by, b.by), const, a.late or b.late, a.dtype or b.dtype, a.root or b.root)
    return made if const is None else replace(made, by=multiple(const))


def multiplied(a: Tile, b: Tile) -> Tile | None:
    """The product of two numbers or tiles."""
    pairs = alike(a, b)
    if pairs is None or a.dtype or b.dtype:
        return None
    if 1 in (a.const, b.const):
        return b if a.const == 1 else a
    if 0 in (a.const, b.const):
        return number(0)
    axes = []
    for one, two in pairs:
        by = (one.by if one.run == 1 else 1) * (two.by if two.run == 1 else 1)
        axes.append(Axis(one.size, 1, min(one.same, two.same), min(by, ANY)))
    const = a.const * b.const if a.const is not None and b.const is not None else None
    return Tile(tuple(axes), min(a.by * b.by, ANY), const, a.late or b.late)


def remainder(a: Tile, b: Tile) -> Tile | None:
    """What is left of `a` in a division by the number `b`."""
    if b.axes or a.dtype or b.dtype or b.const == 1:
        return None
    axes = []
    for axis in a.axes:
        run = min(axis.run, axis.by, b.by)
        axes.append(Axis(axis.size, run, 1, min(axis.by, b.by, run if run < axis.run else ANY)))
    const = a.const % b.const if a.const is not None and b.const else None
    made = Tile(tuple(axes), min(a.by, b.by), const, a.late or b.late)
    return made if const is None else replace(made, by=multiple(const))


def less(a: Tile, b: Tile) -> Tile | None:
    """The mask `a < b`: where `a` rises from a multiple of what `b` is a multiple of, a group is in or out as one."""
    pairs = alike(a, b)
    if pairs is None or a.dtype or b.dtype:
        return None
    axes = []
    for one, two in pairs:
        same = max(min(one.same, two.same), min(one.run, one.by, two.by, two.same))
        axes.append(Axis(one.size, 1, same))
    return Tile(tuple(axes), late=a.late or b.late)


def mixed(a: Tile, b: Tile) -> Tile | None:
    """What any other function makes of two numbers or tiles, element by element."""
    pairs = alike(a, b)
    if pairs is None or a.dtype or b.dtype:
        return None
    axes = tuple(Axis(one.size, 1, min(one.same, two.same)) for one, two in pairs)
    return Tile(axes, late=a.late or b.late)


def joined(a: Tile | None, b: Tile | None) -> Tile | None:
    """What holds for both."""
    if a is None or b is None or a == b:
        return a if a == b else None
    if len(a.axes) != len(b.axes) or (a.dtype, a.root) != (b.dtype, b.root):
        return None
    if any(one.size != two.size for one, two in zip(a.axes, b.axes, strict=True)):
        return None
    axes = tuple(
        Axis(one.size, min(one.run, two.run), min(one.same, two.same), min(one.by, two.by, one.run, two.run)
             if one.run != two.run else min(one.by, two.by))
        for one, two in zip(a.axes, b.axes, strict=True)
    )  # fmt: skip
    return Tile(axes, min(a.by, b.by), None, True, a.dtype, a.root)


def apart(places: Tile) -> bool:
    """Whether the compiler certainly knows of no two elements of a tile that they lie side by side."""
    at, *along = _first(places, len(places.axes))
    steps = [one - at for axis, one in zip(places.axes, along, strict=True) if axis.size > 1]
    return places.sure and any(steps) and 1 not in steps


def moves(before: Tile, after: Tile) -> bool:
    """Whether a tile is certainly another in the second iteration than in the first."""
    return before.first[0] != after.first[0]


def neighbours(places: Tile, mask: Tile | None) -> int:
    """How many elements a load can take at once: those that lie side by side, begin at a multiple of their number and
    are in or out together."""
    masked = mask if mask is not None else Tile()
    pairs = alike(places, masked)
    if pairs is None or not places.axes:
        return 1
    one, two = max(pairs, key=lambda pair: pair[0].run)
    return min(one.run, one.by, two.same) if mask is not None else min(one.run, one.by)
