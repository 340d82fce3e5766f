"""What counts as compensation: values that are rounding errors of a sum of exponentials, and reach what is stored.

A residual is always zero exactly, sometimes not zero when rounded, and still there when products are not rounded. It
compensates when making it larger moves what is stored, and when the error that it stands for does not go on as if it
were not there: one that is added and taken off again has no say in what is stored, though its own roundings have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.kernels.numeric.machine import Machine
from kbh_lint.kernels.numeric.numbers import EXP, Zero
from kbh_lint.kernels.numeric.runs import Evaluation, Parts, Run

_SEEDS = (0, 1, 2, 3, 4)
_SINGLE = 3  # up to so many places are looked at one by one
_LOOPS = 3  # so many loops are waited in, each by itself
_WAITING = 40_000  # steps for them
_SAME = 2.0**-10  # a residual that shrinks by more when products are exact is the error of a product
_SUMS = 8  # so many sums whose errors are followed
_NONE: frozenset[int] = frozenset()
_MOVED = 2.0**-16  # relative change of a stored value that no rounding explains


@dataclass(slots=True)
class Answer:
    """What runs found: residuals by site, the sites whose errors change stored values, the parameters with such values,
    and whether errors of sums are `taken_off` again."""

    runs: list[Run]
    found: dict[int, Zero]
    sites: list[int]
    stored: set[str]
    taken_off: bool = False


class Search(Evaluation):
    """Searches for residuals by running a kernel on numbers."""

    __slots__ = ()

    def of_exponentials(self, src: int, logits: int) -> bool:
        """Whether a value with the source bits `src` depends on exponentials: of this kernel or, with
        `assume_exp_inputs`, of an earlier one, whose results are data that no exponential here takes. `logits` are the
        bits of data that exponentials take."""
        if src & EXP:
            return True
        return self.assume_exp_inputs and bool(src & ~EXP & ~logits)

    def attempt(self, many: bool, seeds: tuple[int, ...] = _SEEDS) -> Answer:
        """Runs on one set of random inputs, and on further sets where the first finds nothing; returns the residuals
        found. `many` makes every loop run often."""
        runs: list[Run] = []
        found: dict[int, Zero] = {}
        for seed in seeds:
            run = self.run(seed, many)
            runs.append(run)
            if run.failed is not None:
                break
            found.update(self.residuals(run, many))
            if found:
                sites, stored = self.effective(run, sorted(found), many)
                if sites and self.cancelled(run, sites, many):
                    return Answer(runs, found, [], set(), taken_off=True)
                if sites:
                    return Answer(runs, found, sites, stored)
            elif not run.machine.guessed and not self.asleep(run):
                break
        return Answer(runs, found, [], set())

    def waiting(self, first: Answer) -> Answer | None:
        """Looks for residuals that a loop has only after many iterations, such as those of sums of blocks, where the
        `first` runs found none; None if there are none."""
        if first.taken_off:
            return None
        rest = max(self.fuel - _WAITING, 0)
        self.fuel -= rest
        found: Answer | None = None
        for loop, tests in list(first.runs[0].machine.stuck().items())[:_LOOPS]:
            self.waits = loop, tests
            found = self.attempt(False, _SEEDS[:1])
            if found.sites:
                break
        self.waits = None
        self.fuel += rest
        return found if found is not None and found.sites else None

    def asleep(self, run: Run) -> bool:
        """Whether an addition is always zero in exact arithmetic, and was zero in rounded arithmetic too in this run.

        That may be chance, here or in the run without rounded products that `residuals` compares with, so that another
        run is worth while.
        """
        numbers = run.numbers
        return any(
            site not in numbers.nonzero and self.of_exponentials(record.src, logits_of([run]))
            for site, record in numbers.zeros.items()
        )

    def residuals(self, run: Run, many: bool) -> dict[int, Zero]:
        """The rounding errors of sums of exponentials that a run computes, by site.

        They are always zero in exact arithmetic, sometimes not zero when rounded, and still there when products and
        quotients are not rounded.
        """
        logits = logits_of([run])
        wanted = {
            site: record
            for site, record in run.numbers.zeros.items()
            if site not in run.numbers.nonzero and any(record.values) and self.of_exponentials(record.src, logits)
        }
        if not wanted:
            return wanted
        again = self.run(run.numbers.seed, many, products=False).numbers.zeros
        kept: dict[int, Zero] = {}
        for site, record in wanted.items():
            pairs = zip(record.values, again[site].values if site in again else [], strict=False)
            if any(a and abs(b) >= abs(a) * _SAME for a, b in pairs):
                kept[site] = record
        return kept

    def effective(self, run: Run, sites: list[int], many: bool) -> tuple[list[int], set[str]]:
        """Those of `sites` whose rounding errors change a stored value, and the parameters that hold changed values."""
        seed = run.numbers.seed
        stored = _moved(run, self.run(seed, many, amplify=frozenset(sites), follows=run), self.ends)
        if not stored:
            return [], stored
        places: dict[ir.Loc, list[int]] = {}
        for site in sites:
            places.setdefault(self.sites.loc(site), []).append(site)
        if not 1 < len(places) <= _SINGLE:
            return sites, stored
        moving = [
            at
            for at in places.values()
            if _moved(run, self.run(seed, many, amplify=frozenset(at), follows=run), self.ends)
        ]
        return [site for at in moving for site in at] or sites, stored

    def cancelled(self, run: Run, sites: list[int], many: bool) -> bool:
        """Whether no error of a sum that residuals at `sites` belong to is made good by them in what is stored.

        The first sum that each text makes is looked at before the others, in case not all can be.

        A sum is made wrong by more than it would be rounded: where a compensation reaches the result, what is stored is
        the same, or depends on whether residuals are at work. It does not where the residual comes to nothing by
        algebra, as in `(s + c) - (c - d)` with `d` the error of that addition.
        """
        near = 0
        for site in sites:
            near |= run.numbers.zeros[site].near
        bit, logits = run.numbers.bit, logits_of([run])
        sums = [site for site, total in run.numbers.totals.items() if bit(-site - 1) & near and not total.wide]
        sums = [site for site in sums if self.of_exponentials(run.numbers.totals[site].src, logits)]
        if len(sums) > _SUMS:
            return False
        first = {self.sites.loc(site): site for site in reversed(sums)}
        sums.sort(key=lambda site: site not in first.values())
        right: Run | None = None
        for number, site in enumerate(sums):
            wrong = self.left_wrong(run, site, many)
            if wrong is False:
                return False
            if right is None:
                right = self.run(run.numbers.seed, many, mute=frozenset(run.numbers.zeros), follows=run)
            if wrong is None or right.failed:
                return number >= len(first)
            if not _moved(right, wrong, self.ends):
                return False
        return bool(sums)

    def left_wrong(self, run: Run, site: int, many: bool) -> Run | Literal[False] | None:
        """The run without residuals in which the sum at `site` is wrong, where what is stored is no other than if they
        were at work; False where it is, or where the sum has no part in it, and None where that cannot be told."""
        plain = self.run(run.numbers.seed, many, nudge=site, follows=run)
        if plain.failed:
            return None
        if not _moved(run, plain, self.ends):
            return False
        mute: frozenset[int] = frozenset(run.numbers.zeros)
        at_work, at_rest = (
            self.run(run.numbers.seed, many, nudge=site, mute=muted, follows=run) for muted in (_NONE, mute)
        )
        if at_work.failed or at_rest.failed:
            return None
        return False if _moved(at_rest, at_work, self.ends) else at_rest

    def precise(self, runs: list[Run], many: bool) -> tuple[list[int], set[str]]:
        """The sites of additions of exponentials in f64 that a stored value depends on, and the parameters with such
        values."""
        sites = _wide(self, runs)
        if not sites:
            return [], set()
        seed = runs[0].numbers.seed
        return sites, _moved(runs[0], self.run(seed, many, scale=frozenset(sites)), self.ends)


def logits_of(runs: list[Run]) -> int:
    """The source bits of all data that some exponential takes in `runs`."""
    logits = 0
    for run in runs:
        logits |= run.numbers.logits
    return logits & ~EXP


def _wide(work: Search, runs: list[Run]) -> list[int]:
    logits = logits_of(runs)
    sites: dict[int, None] = {}
    for run in runs:
        for table in (run.numbers.totals, run.numbers.reductions):
            for site, total in table.items():
                if total.wide and work.of_exponentials(total.src, logits):
                    sites.setdefault(site)
    return list(sites)


def _counts(before: Run, i: int, ends: Mapping[int, Parts] | None) -> bool:
    """Whether what a store put somewhere is looked at by somebody else than the launches."""
    name = before.machine.stores[i][0]
    if ends is None or name == "?":
        return True
    ident = next((n for n, memory in before.machine.tensors.items() if memory.name == name and n in ends), None)
    if ident is None:
        return False
    parts, tensor = ends[ident], before.machine.tensors[ident]
    cells, _ = before.machine.cells.get(i, (range(0), False))
    if parts is None or not cells or not isinstance(tensor.unit, int):
        return True
    return any(tensor.byte(cell) in part for cell in cells for part in parts)


def _moved(before: Run, after: Run, ends: Mapping[int, Parts] | None) -> set[str]:
    """The parameters that got other values in the second run than in the first."""
    gone = _overwritten(before.machine)
    pairs = zip(before.machine.stores, after.machine.stores, strict=False)
    return {
        a[0]
        for i, (a, b) in enumerate(pairs)
        if i not in gone and a[0] == b[0] and _differs(a[1], b[1]) and _counts(before, i, ends)
    }


def _overwritten(machine: Machine) -> set[int]:
    """The stores (by index) whose memory later ones fill again. What was read in between went on from there."""
    gone: set[int] = set()
    filled: set[tuple[str, int]] = set()
    for i in sorted(machine.cells, reverse=True):
        places, sure = machine.cells[i]
        cells = {(machine.stores[i][0], at) for at in places}
        if cells <= filled:
            gone.add(i)
        elif sure:
            filled |= cells
    return gone


def _differs(a: object, b: object) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return any(_differs(x, y) for x, y in zip(a, b, strict=False))
    if isinstance(a, float) and isinstance(b, float):
        if not math.isfinite(a) or not math.isfinite(b):
            return repr(a) != repr(b)
        return abs(a - b) > _MOVED * max(abs(a), abs(b))
    return False
