"""What a value is a total of: the places of the products that were added up in it, and whether they were rounded since.

A product makes a total of itself. What adds, scales, converts, chooses or moves values hands totals on; another product
does not, nor does a function that is not linear. So a kernel keeps a total in a narrow type between the rounds of a
loop where something that was rounded in an earlier round meets the same product of this round, by whatever names,
functions or memory it went.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir
from kbh_lint.base.ir import Loc
from kbh_lint.base.records import dataclass

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run
    from kbh_lint.kernels.core.value import V

Round = tuple[int, int]  # a loop, and one of the rounds of it that were looked at
Rounds = tuple[Round, ...]  # of the loops that run, the outermost first
Place = tuple[Loc, tuple[object, ...]]  # of a product, and the calls that led there


@dataclass(frozen=True, slots=True)
class Total:
    """One product in a total. `made`: the rounds of the loops around it in which it was computed; `kind`, `at` and
    `when`: the type that the total was rounded to since, where, and in which rounds; `still`: the loops in which the
    places in memory that it went through are the same ones in each round, None where it went through none."""

    place: Place
    made: Rounds
    kind: str = ""
    at: Loc = ()
    when: Rounds = ()
    still: frozenset[int] | None = None
    weights: bool = False  # no product of tensors: data times weights that are made of products


Totals = tuple[Total, ...]  # one for each place
NO_TOTALS: Totals = ()
NOWHERE: frozenset[int] = frozenset()


def together(a: Totals, b: Totals) -> Totals:
    """What a value may be a total of that is `a` or `b`; `a` itself if that covers `b`."""
    if not b or a is b:
        return a
    if not a:
        return b
    found = {one.place: one for one in a}
    changed = False
    for other in b:
        one = found.get(other.place)
        new = other if one is None else _either(one, other)
        if new is not one:
            found[other.place] = new
            changed = True
    return tuple(found.values()) if changed else a


def _either(a: Total, b: Total) -> Total:
    """The older of two, rounded where one of them is."""
    made = min(a.made, b.made)
    by = a if a.kind and (not b.kind or a.when <= b.when) else b
    still = a.still if b.still is None else b.still if a.still is None else a.still & b.still
    same = made == a.made and (by is a or not b.kind) and still == a.still
    return a if same else Total(a.place, made, by.kind, by.at, by.when, still, a.weights)


class Loops:
    """The loops that run, each with the round of it that is looked at, and what totals come to in them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.open: list[int] = []
        self.rounds: list[int] = []
        self.count = 0

    def enter(self, loop: ir.Stmt) -> None:
        """Begins a loop."""
        self.open.append(id(loop))
        self.rounds.append(self.count)

    def leave(self) -> None:
        """Ends the innermost loop."""
        self.open.pop()
        self.rounds.pop()

    def again(self) -> None:
        """Begins a round of the innermost loop."""
        self.count += 1
        self.rounds[-1] = self.count

    def now(self) -> Rounds:
        """The rounds that run."""
        return tuple(zip(self.open, self.rounds, strict=True))

    def carried_by(self, made: Rounds) -> int:
        """The outermost loop that has gone on to another round since; 0 where it is of this round."""
        for (loop, count), now, at in zip(made, self.open, self.rounds, strict=False):
            if loop != now:
                return 0
            if count != at:
                return loop
        return 0

    def ages(self, values: Iterable[V | None]) -> object:
        """By which loops the totals among values were carried: what is added to them hangs on it."""
        found = [one for value in values if value is not None and value.totals for one in value.totals]
        return tuple([(self.carried_by(one.made), self.carried_by(one.when)) for one in found])

    def rounded(self, totals: Totals, source: str, target: str, loc: Loc) -> Totals:
        """The totals of a value that is converted from one type to another."""
        if target not in dtypes.FLOATS or source not in dtypes.FLOATS:
            return NO_TOTALS
        if dtypes.BITS[target] >= dtypes.BITS[source]:
            return totals
        now = self.now()
        return tuple([one if one.kind else replace(one, kind=target, at=loc, when=now) for one in totals])

    def product(self, loc: Loc, weights: bool = False) -> Totals:
        """What the product at a place is a total of."""
        return (Total((loc, self.run.frame.key), self.now(), weights=weights),)

    def stored(self, totals: Totals, still: Callable[[], frozenset[int]]) -> Totals:
        """Totals that are written to memory, at a place that is the same in the rounds of the loops that `still`
        gives."""
        if not totals or not self.open:
            return totals
        here = still()
        return tuple([replace(one, still=here if one.still is None else one.still & here) for one in totals])

    def as_now(self, value: V, was: tuple[tuple[object, ...], Rounds], here: tuple[object, ...]) -> V:
        """What a call gives that is not made again, as one that is made `here` and now; `was`: by which calls and in
        which rounds it was made."""
        if not value.totals:
            return value
        key, then = was
        now = self.now()
        made: list[Total] = []
        for one in value.totals:
            loc, path = one.place
            place = (loc, (*here, *path[len(key) :])) if path[: len(key)] == key else one.place
            rounds = [(*now, *old[len(then) :]) if old[: len(then)] == then else old for old in (one.made, one.when)]
            made.append(replace(one, place=place, made=rounds[0], when=rounds[1]))
        return value.with_(totals=tuple(made))

    def added(self, a: Totals, b: Totals, dtype: str, loc: Loc) -> tuple[Totals, Totals]:
        """The totals of a sum in a type, and those of a round before in it that were rounded and are now added to."""
        made: list[Total] = []
        kept: list[Total] = []
        others = {one.place: one for one in b}
        for one in a:
            other = others.pop(one.place, None)
            made.append(self._alone(one) if other is None else self._sum(one, other, kept))
        made += [self._alone(other) for other in others.values()]
        if kept:  # other products are in the same total
            kept = [one for one in (*a, *b) if one in kept or self._kept(one)]
        if dtype in dtypes.FLOATS and dtypes.BITS[dtype] < dtypes.BITS["f32"]:
            now = self.now()
            made = [one if one.kind else replace(one, kind=dtype, at=loc, when=now) for one in made]
        return tuple(made), tuple(kept)

    def _alone(self, one: Total) -> Total:
        """A product in a sum whose other summand has it not: as a part of this round it may have been rounded."""
        plain = not one.kind and one.still is None
        return one if plain or self.carried_by(one.made) else Total(one.place, one.made, weights=one.weights)

    def _kept(self, total: Total) -> bool:
        """Whether a total was rounded in an earlier round of a loop, and has been where this round finds it."""
        loop = self.carried_by(total.when) if total.kind else 0
        return bool(loop) and (total.still is None or loop in total.still)

    def _sum(self, one: Total, other: Total, kept: list[Total]) -> Total:
        old, new = self.carried_by(one.made), self.carried_by(other.made)
        kept += [total for total, met in ((one, new), (other, old)) if not met and self._kept(total)]
        latest = other if old and not new else one  # two parts of one total come to all of it
        return Total(one.place, latest.made, weights=one.weights)
