"""From where on and up to where in a tensor the stores of a launch can reach, by the conditions they stand under."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kbh_lint.base import ir, values
from kbh_lint.kernels.extents.follow import NOT_FOLLOWED, Follow, can_be_followed
from kbh_lint.kernels.extents.intervals import highest, lowest
from kbh_lint.kernels.extents.values import Dims, Pointer, Value

_Place = tuple[int, ir.Loc]  # of a store: the storage, and where the store stands


class StoreExtents(NamedTuple):
    """What is known of the stores of a launch, by storage and place.

    `ends`: how many elements lie before the last one that a store can write (0: it writes none); one that is not known
    is left out. `starts`: how many lie before the first, where that is known. `doubtful`: stores under a condition on
    more than positions, as on what was loaded, which may never hold.
    """

    ends: dict[_Place, int]
    starts: dict[_Place, int]
    doubtful: set[_Place]


def store_extents(kernel: values.Func, args: Mapping[str, object], grid: Dims, block: Dims) -> StoreExtents:
    """Where the stores of a launch of `grid` and `block` can begin and end, and which of them may not be executed at
    all."""
    if not can_be_followed(kernel):
        return StoreExtents({}, {}, set())
    with _Stores(kernel, args, grid, block) as stores:
        try:
            stores.run()
        except NOT_FOLLOWED:
            return StoreExtents({}, {}, set())
        ends = {at: n for at, n in stores.found.items() if n is not None}
        starts = {at: n for at, n in stores.first.items() if n is not None}
        return StoreExtents(ends, starts, stores.doubtful - stores.firm)


class _Stores(Follow):
    """Notes where every store begins and ends."""

    def __init__(self, kernel: values.Func, args: Mapping[str, Any], grid: Dims, block: Dims) -> None:
        super().__init__(kernel, args, grid, block)
        self.found: dict[_Place, int | None] = {}
        self.first: dict[_Place, int | None] = {}
        self.doubtful: set[_Place] = set()
        self.firm: set[_Place] = set()

    def stored(self, where: Value, *places: ir.Loc) -> None:
        """Records the first and the last element that a store can write."""
        if not isinstance(where, Pointer):
            return
        never = self.limits.get((), 0) < 0
        last = -1 if never else highest(self.atoms, where.offset, self.limits)
        first = None if never else lowest(self.atoms, where.offset, self.limits)
        for loc in places:
            if not never:
                least = self.first.get((where.storage, loc), first)
                self.first[where.storage, loc] = None if least is None or first is None else min(least, first)
            (self.doubtful if self.doubt else self.firm).add((where.storage, loc))
            before = self.found.get((where.storage, loc), 0)
            known = before is not None and last is not None
            self.found[where.storage, loc] = max(before or 0, (last or 0) + 1, 0) if known else None
