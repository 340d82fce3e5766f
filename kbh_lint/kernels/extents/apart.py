"""Whether loads at several places of a kernel read different elements of a tensor, whatever block and iteration it is.

Addresses are sums of numbers times constants. Where all but small parts of two are multiples of one number, the rests
tell them apart: keys and values that lie beside one another in each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from math import gcd

from kbh_lint.base import ir, values
from kbh_lint.kernels.extents.expressions import Expressions
from kbh_lint.kernels.extents.follow import NOT_FOLLOWED, Follow, can_be_followed
from kbh_lint.kernels.extents.intervals import Linear, highest, lowest
from kbh_lint.kernels.extents.values import Dims, Pointer, Value

MAX_PLACES = 8

Place = tuple[int, ...]


def apart(kernel: values.Func, args: Mapping[str, object], grid: Dims, block: Dims, places: Iterable[ir.Loc]) -> bool:
    """Whether the loads at `places` read disjoint elements: no element is read at two of them. False where that cannot
    be shown."""
    wanted = {loc[1:] for loc in places}
    if len(wanted) > MAX_PLACES or not can_be_followed(kernel):
        return False
    with Follow(kernel, args, grid, block) as follow:
        noted = follow.expressions = _Loads(follow)
        try:
            follow.run()
        except NOT_FOLLOWED:
            return False
        if any(at not in noted.loaded for at in wanted):
            return False
        return all(_apart(follow, a, b) for a, b in combinations([noted.loaded[at] for at in sorted(wanted)], 2))


class _Loads(Expressions):
    """Notes the address of each load: of one that is met at several, none."""

    def __init__(self, run: Follow) -> None:
        super().__init__(run)
        self.loaded: dict[Place, Linear] = {}
        self._met: dict[Place, Linear | None] = {}

    def value(self, node: object) -> Value:
        """The value of an expression; notes the address of each load in it."""
        made = super().value(node)
        if isinstance(node, ir.Call) and not self.run.cpp and self.called(node.func) == "load" and node.args:
            self._note(node.loc, super().value(node.args[0]))
        elif isinstance(node, ir.Index) and self.run.cpp:
            self._note(node.loc, self.binary("+", super().value(node.value), super().value(node.index)))
        return made

    def _note(self, loc: ir.Loc, where: object) -> None:
        at = loc[1:]
        offset = where.offset if isinstance(where, Pointer) else None
        known = self._met.get(at, offset)
        self._met[at] = offset if known == offset else None
        if self._met[at] is None:
            self.loaded.pop(at, None)
        elif offset is not None:
            self.loaded[at] = offset


def _apart(follow: Follow, a: Linear, b: Linear) -> bool:
    """Whether the rests of two sums, by one of the numbers that their larger parts are multiples of, never meet."""
    factors = sorted({abs(factor) for _, factor in (*a.terms, *b.terms)}, reverse=True)
    common = 0
    for factor in factors:
        common = gcd(common, factor)
        one, other = _rest(follow, a, common), _rest(follow, b, common)
        if one is not None and other is not None and _never_meet(one, other, common):
            return True
    return False


def _rest(follow: Follow, address: Linear, by: int) -> tuple[int, int] | None:
    """The bounds of what a sum leaves when its multiples of a number are left out."""
    small = Linear(address.const, tuple((atom, factor) for atom, factor in address.terms if factor % by))
    low, high = lowest(follow.atoms, small, {}), highest(follow.atoms, small, {})
    return None if low is None or high is None else (low, high)


def _never_meet(one: tuple[int, int], other: tuple[int, int], by: int) -> bool:
    """Whether no two numbers of two ranges differ by a multiple of `by`."""
    least, most = other[0] - one[1], other[1] - one[0]
    return least % by != 0 and least // by == most // by
