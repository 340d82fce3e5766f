"""How much of a storage an address or a box can touch: from where to where, and how many elements at most."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import gcd

from kbh_lint.base.records import dataclass
from kbh_lint.kernels.extents import intervals
from kbh_lint.kernels.extents.intervals import Atoms, Limits, Linear, Terms, add, highest, lowest
from kbh_lint.kernels.extents.values import Described


@dataclass(frozen=True, slots=True)
class Part:
    """The elements that one access in a kernel can touch: from `first` up to before `end`, at most `count`, all with
    the remainder `phase` modulo `step`. For structs each is the first of `width` elements."""

    first: int
    end: int
    count: int | None
    step: int = 1
    phase: int = 0
    width: int = 1


def addressed(atoms: Atoms, address: Linear, limits: Limits, unit: int = 1) -> Part | None:
    """The part of a storage that accesses at `address` can touch, each of `unit` elements; None where unbounded."""
    if limits.get((), 0) < 0:
        return Part(0, 0, 0)  # never
    first, last = lowest(atoms, address, limits), highest(atoms, address, limits)
    if first is None or last is None:
        return None
    step, count = gcd(*(factor for _, factor in address.terms)) or 1, _count(atoms, address, limits)
    if step > 1 and count is not None:
        count = min(count, max(last - first, -1) // step + 1)
    if unit > 1:
        ends = first, max(last + unit, 0), None if count is None else count * unit
        return Part(*ends) if step <= unit else Part(*ends, step, address.const % step, unit)
    return Part(first, max(last + 1, 0), count, step, address.const % step)


def boxed(atoms: Atoms, box: Described, at: Sequence[Linear], clipped: Collection[int], limits: Limits) -> Part | None:
    """The part of a tensor that accesses to a box beginning at `at` can touch; on the axes in `clipped`, elements
    outside the tensor are not touched. None where unbounded."""
    if not len(at) == len(box.shape) == len(box.strides) == len(box.block):
        return None
    first, last = box.start, box.start
    count = _together(atoms, [atom for atom, _ in box.start.terms], limits)
    for axis, (offset, block) in enumerate(zip(at, box.block, strict=True)):
        low, high = lowest(atoms, offset, limits), highest(atoms, add(offset, Linear(block - 1)), limits)
        if axis in clipped:
            size = highest(atoms, box.shape[axis], limits)
            low = max(low or 0, 0)
            high = high if size is None else size - 1 if high is None else min(high, size - 1)
        stride = box.strides[axis]
        if low is None or high is None or stride.terms or stride.const < 0:
            return None
        first, last = add(first, Linear(low * stride.const)), add(last, Linear(high * stride.const))
        count = None if count is None else count * max(high - low + 1, 0)
    begin, end = lowest(atoms, first, limits), highest(atoms, last, limits)
    return None if begin is None or end is None else Part(begin, max(end + 1, 0), count)


def _count(atoms: Atoms, address: Linear, limits: Limits) -> int | None:
    """How many values a sum has at most: as many as the numbers with the largest factors have together, times
    the room that the rest of the sum has, wherever the sum is cut."""
    terms = sorted(address.terms, key=lambda term: -abs(term[1]))
    together, best = _Together(atoms, limits), None
    for cut in range(len(terms) + 1):
        if cut:
            together.add(terms[cut - 1][0])
        large = together.count()
        if large is None:
            break
        room = _room(atoms, tuple(sorted(terms[cut:])), limits)
        best = large * room if room is not None and (best is None or large * room < best) else best
    return best


def _together(atoms: Atoms, some: list[int], limits: Limits) -> int | None:
    """How many values some numbers have together at most."""
    together = _Together(atoms, limits)
    for atom in some:
        together.add(atom)
    return together.count()


class _Together:
    """How many values numbers have together at most, one added after the other: as many as what they are made of has,
    and as each has room for."""

    def __init__(self, atoms: Atoms, limits: Limits) -> None:
        self.atoms, self.limits = atoms, limits
        self.seen: set[int] = set()  # what those are made of that were added
        self.made: int | None = 1
        self.each: int | None = 1

    def count(self) -> int | None:
        """How many values those have that were added; None where it is not known."""
        known = [count for count in (self.made, self.each) if count is not None]
        return min(known) if known else None

    def add(self, atom: int) -> None:
        """Counts one more number."""
        room = _room(self.atoms, ((atom, 1),), self.limits)
        self.each = None if self.each is None or room is None else self.each * room
        stack = [atom]
        while stack and self.made is not None:
            part = stack.pop()
            made = self.atoms.made.get(part)
            if made is not None:
                stack += [inner for side in (made[1], made[2]) for inner, _ in side.terms]
            elif part not in self.seen:
                self.seen.add(part)
                room = _room(self.atoms, ((part, 1),), self.limits)
                self.made = None if room is None else self.made * room


def _room(atoms: Atoms, terms: Terms, limits: Limits) -> int | None:
    """How many whole numbers there are where a sum can be: asked for each number of an address again wherever the
    address is cut. An answer that is there costs as many of the steps as it did."""
    if atoms.limits is not limits:
        atoms.turn(limits)
    known = atoms.bounds.rooms.get(terms)
    if known is not None and atoms.steps + known[1] <= intervals.MAX_STEPS:
        atoms.steps += known[1]
        return known[0]
    before, value = atoms.steps, Linear(0, terms)
    low, high = lowest(atoms, value, limits), highest(atoms, value, limits)
    found = None if low is None or high is None else max(high - low + 1, 0)
    atoms.bounds.rooms[terms] = found, atoms.steps - before
    return found
