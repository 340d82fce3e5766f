"""Whole numbers between two ends: what is known of a value that depends on data, from what legal inputs hold.

It is asked for by one question alone, whether an input reaches anything at all whatever legal numbers it holds, so only
a run that is `given` ranges keeps them. A value that comes to one number depends on nothing; a comparison that comes
out one way for all is no question. A value whose range is not known has none: copies of it lose it unless they are the
same numbers in another shape.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

from kbh_lint.base import dtypes
from kbh_lint.base.records import dataclass
from kbh_lint.kernels.core.value import NOTHING, Cell, Place, Shape, V, everywhere

Ends = tuple[int, int]  # both included
_SAME_NUMBERS = frozenset(("shape", "origins", "casts", "deps", "ct"))
_LARGEST = 1 << 31  # of a grid


@dataclass(frozen=True, slots=True)
class Rising:
    """Offsets that never decrease: how many there are, the first and the last.

    `apart` is the greatest difference between neighbours, given where the question is what a kernel does for groups of
    at most that size.
    """

    count: int
    first: int
    last: int
    apart: int | None = None

    def most(self, places: int) -> int:
        """How much two elements that are `places` apart can differ at most."""
        whole = self.last - self.first
        return whole if self.apart is None else min(whole, abs(places) * self.apart)


@dataclass(slots=True)
class Layout:
    """Numbers that legal inputs may hold, by which a run knows what is loaded at a place that it knows. `asked` are
    these places, `others` says whether anything was loaded at other ones."""

    numbers: tuple[int, ...]
    asked: set[int] = field(default_factory=set)
    others: bool = False

    @classmethod
    def even(cls, rising: Rising) -> Layout:
        """Offsets of groups that are all as large, but for what is left over in the last."""
        each = (rising.last - rising.first) // (rising.count - 1)
        return cls((*(rising.first + each * at for at in range(rising.count - 1)), rising.last))

    def leaves_open(self, asked: Collection[int]) -> bool:
        """Whether an element that is not `asked` for could be another number."""
        numbers = self.numbers
        free = (at for at in range(1, len(numbers) - 1) if numbers[at - 1] < numbers[at + 1])
        return any(at not in asked for at in free)


class Ranged(V):
    """An integer between two bounds, or a tile of such integers; of a tile, `all` is the `sum` or the `max` of its
    elements where known."""

    __slots__ = ("ends", "all")
    ends: Ends
    all: tuple[str, int] | None

    @classmethod
    def of(cls, value: V, ends: Ends, all: tuple[str, int] | None = None) -> Ranged:
        """`value` with the bounds `ends` and, for a tile, the sum or maximum of `all` its elements."""
        made = cls(
            value.dtype, value.content, value.origins, value.casts, value.const, value.deps, value.cells, value.shape,
            value.x, value.ct,
        )  # fmt: skip
        made.ends, made.all = ends, all
        return made

    def holds(self, other: V) -> bool:
        """Whether the bounds of `other` lie within these bounds, and the known sum or maximum of its elements is the
        same."""
        return (
            isinstance(other, Ranged)
            and self.all == other.all
            and self.ends[0] <= other.ends[0] <= other.ends[1] <= self.ends[1]
        )

    def with_(self, **changes: object) -> V:
        """A copy with some fields replaced; the bounds are kept where the replaced fields do not change the number."""
        made = V.with_(self, **changes)
        return Ranged.of(made, self.ends, self.all) if changes.keys() <= _SAME_NUMBERS else made


@dataclass(slots=True)
class Ranges:
    """The bounds of integers that the analysis is given: those of the contents of storages, which of these are `rising`
    offsets, and `layouts` of numbers that they may hold. Without any, no bounds are tracked."""

    given: dict[int, Ends]
    rising: dict[int, Rising] = field(default_factory=dict)
    layouts: dict[int, Layout] = field(default_factory=dict)

    def start(self, storage: int) -> Place | None:
        """Where a pointer to memory of which numbers are given lies when a kernel begins."""
        return Place(0) if storage in self.layouts else None

    def placed(self, cells: list[Cell], value: V, pointer: V, stride: int) -> V:
        """`value`, loaded from `cells`, where the place says which of the given numbers it is."""
        layout = self.layouts.get(cells[0].storage) if len(cells) == 1 and not cells[0].entries else None
        if layout is None:
            return value
        at = pointer.x.bytes if isinstance(pointer.x, Place) else None
        plain = value.dtype == cells[0].dtype and stride in (1, dtypes.BITS.get(value.dtype, 0) // 8)
        if at is None or not plain or not 0 <= at // stride < len(layout.numbers) or pointer.shape:
            layout.others = True
            return value
        layout.asked.add(at // stride)
        return V(value.dtype, value.dtype, const=layout.numbers[at // stride], shape=value.shape)

    def loaded(self, cells: list[Cell], value: V) -> V:
        """`value`, loaded from `cells`, with the bounds of legal inputs, if all cells hold inputs that the kernel has
        not written."""
        known = [self.given.get(cell.storage) for cell in cells if cell.kind == "param" and not cell.entries]
        if value.dtype not in dtypes.INTS or not known or len(known) < len(cells):
            return value
        ends = [one for one in known if one is not None]
        if len(ends) < len(known):
            return value
        return Ranged.of(value, (min(low for low, _ in ends), max(high for _, high in ends)))

    def masked(self, value: V, other: V | None) -> V:
        """The result of a masked load: `value` where the mask holds, `other` elsewhere; its bounds cover both."""
        ends = ends_of(value)
        if ends is None or other is None:
            return value
        beside = ends_of(other)
        if beside is None:
            return value.with_(const=NOTHING)
        return Ranged.of(value, (min(ends[0], beside[0]), max(ends[1], beside[1])))

    def combined(self, op: str, a: V, b: V, made: V) -> V:
        """`made`, the result of `a op b` on integers, with its bounds."""
        left, right = ends_of(a), ends_of(b)
        if left is None or right is None or made.cells or made.dtype in dtypes.FLOATS:
            return made
        return bounded(made, arithmetic(op, left, right))

    def rounded_up(self, a: V, b: V, made: V) -> V:
        """`made`, the quotient of the integers `a` and `b` rounded up, with its bounds."""
        whole, part = ends_of(a), ends_of(b)
        if whole is None or part is None or whole[0] < 0 or part[0] <= 0:
            return made
        return bounded(made, (-(-whole[0] // part[1]), -(-whole[1] // part[0])))

    def compared(self, op: str, a: V, b: V, made: V) -> V:
        """`made`, the result of the comparison `a op b`; a constant if the comparison is the same for all numbers
        within the bounds."""
        left, right = ends_of(a), ends_of(b)
        if left is None or right is None or made.known:
            return made
        if any(v.dtype.startswith("u") for v in (a, b)) and min(left[0], right[0]) < 0:  # it is compared as a large one
            return made
        answer = comparison(op, left, right)
        return made if answer is None else V("bool", "bool", const=answer, shape=made.shape)

    def negated(self, value: V, made: V) -> V:
        """`made`, the result of `-value`, with the negated bounds of `value`; without any for floats."""
        ends = ends_of(value)
        plain = V.with_(made)  # another number: it must not keep the value's own ends
        return plain if ends is None or made.dtype in dtypes.FLOATS else bounded(plain, (-ends[1], -ends[0]))

    def converted(self, value: V, made: V, target: str) -> V:
        """`made`, `value` converted to `target`, with the same bounds if that is an integer type that holds all numbers
        within them."""
        ends = ends_of(value) if not value.known else None
        if ends is None or target not in dtypes.INTS or target == "bool" or not _held(target, ends):
            return made
        return Ranged.of(made, ends, value.all if isinstance(value, Ranged) else None)

    def over_all(self, how: str, value: V, made: V) -> V:
        """`made`, the `sum` or `max` over the elements of a tile, or the running sum (`how` is "cumulative"), with what
        is known of it. The largest element of a running sum is the sum of all elements."""
        if how in ("sum", "max", "cumulative") and ends_of(value) == (0, 0):
            return bounded(made, (0, 0))
        known = value.all if isinstance(value, Ranged) and value.shape is not None and len(value.shape) == 1 else None
        if known is not None and how == "cumulative" and known[0] == "sum":
            return Ranged.of(made, (0, known[1]), ("max", known[1]))
        return bounded(made, (known[1], known[1])) if known is not None and known[0] == how else made

    def extreme(self, larger: bool, a: V, b: V, made: V) -> V:
        """`made`, the larger or the smaller of `a` and `b`, with its bounds. If one of them always wins, the result
        does not depend on the other."""
        left, right = ends_of(a), ends_of(b)
        if left is None or right is None or made.dtype in dtypes.FLOATS:
            return made
        for one, mine, its in ((a, left, right), (b, right, left)):
            if mine[0] >= its[1] if larger else mine[1] <= its[0]:
                return bounded(made.with_(origins=one.origins, casts=one.casts), mine)
        pick = max if larger else min
        return bounded(made, (pick(left[0], right[0]), pick(left[1], right[1])))

    def chosen(self, test: V, yes: V, no: V, made: V) -> V:
        """`made`, the result of `yes if test else no`, with its bounds; if `test` is known, it depends on that side
        only."""
        answer = everywhere(test)
        one, other = ends_of(yes), ends_of(no)
        if isinstance(answer, (bool, int)):
            side, ends = (yes, one) if answer else (no, other)
            made = made.with_(origins=side.origins, casts=side.casts)
            return made if ends is None or made.dtype in dtypes.FLOATS else bounded(made, ends)
        if one is None or other is None or made.dtype in dtypes.FLOATS:
            return made
        return Ranged.of(made, (min(one[0], other[0]), max(one[1], other[1])))

    def counted(self, shape: Shape, low: int = 0, high: int = _LARGEST) -> V:
        """An integer from `low` to `high`: an index in a grid or a tile."""
        return Ranged.of(V("i32", "i32", shape=shape), (low, high))


def ends_of(value: V) -> Ends | None:
    """The least and the largest integer that `value` may be; None where unknown."""
    if isinstance(value, Ranged):
        return value.ends
    number = everywhere(value)
    return (int(number), int(number)) if isinstance(number, int) else None


def bounded(value: V, ends: Ends | None) -> V:
    """`value` with the bounds `ends`. If both bounds are one number, it becomes that constant, which depends on no
    data."""
    if ends is None or not _held(value.dtype, ends):
        return value
    if ends[0] == ends[1] and value.const is NOTHING:
        return V(value.dtype, value.dtype, const=ends[0], shape=value.shape)
    return Ranged.of(value, ends)


def _held(dtype: str, ends: Ends) -> bool:
    """Whether a type holds all these numbers: one that does not wraps them."""
    bits = dtypes.BITS.get(dtype, 64)
    low, high = (0, (1 << bits) - 1) if dtype.startswith("u") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return low <= ends[0] and ends[1] <= high


def arithmetic(op: str, a: Ends, b: Ends) -> Ends | None:
    """The bounds of `a op b`, given the bounds of the operands; None where unknown."""
    if op == "+":
        return a[0] + b[0], a[1] + b[1]
    if op == "-":
        return a[0] - b[1], a[1] - b[0]
    if op == "*":
        corners = [x * y for x in a for y in b]
        return min(corners), max(corners)
    if op == "&" and a[0] >= 0 > b[0] == b[1] and -b[0] & (-b[0] - 1) == 0:  # down to a multiple of a power of two
        return a[0] & b[0], a[1] & b[0]
    if a[0] < 0 or b[0] < 0:  # languages differ in how they divide negative numbers
        return None
    if op in ("//", "/", "%") and b[0] > 0:
        if op == "%":
            return a if a[1] < b[0] else (0, min(a[1], b[1] - 1))
        return a[0] // b[1], a[1] // b[0]
    if op == "&":
        return 0, min(a[1], b[1])
    if op == ">>" and b[1] < 64:
        return a[0] >> b[1], a[1] >> b[0]
    if op == "<<" and b[1] < 64:
        return a[0] << b[0], a[1] << b[1]
    if op in ("|", "^") and 0 in (a[1], b[1]):
        return (max(a[0], b[0]), max(a[1], b[1]))
    return None


def comparison(op: str, a: Ends, b: Ends) -> bool | None:
    """The truth of the comparison `a op b`, given the bounds of both sides; None where it depends on the numbers."""
    if op in (">", ">="):
        op, a, b = ("<" if op == ">" else "<="), b, a
    if op == "<":
        return True if a[1] < b[0] else False if a[0] >= b[1] else None
    if op == "<=":
        return True if a[1] <= b[0] else False if a[0] > b[1] else None
    apart = a[1] < b[0] or b[1] < a[0]
    same = a[0] == a[1] == b[0] == b[1]
    if op in ("==", "!=") and (apart or same):
        return same if op == "==" else apart
    return None
