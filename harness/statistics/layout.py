"""Rows as arrays: models x problems x trials, in an order that does not depend on that of the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from harness.statistics.rows import MAX_ROWS, Row, StatisticsError

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError as error:
    raise ImportError("statistics need numpy and scipy: pip install '.[stats]'") from error

__all__ = ["MAX_MODELS", "MAX_PROBLEMS", "MAX_TRIALS", "Array", "Layout", "lay_out"]

Array: TypeAlias = NDArray[np.float64]
MAX_MODELS = 200
MAX_PROBLEMS = 2_000
MAX_TRIALS = 1_000  # of a cell
MAX_PLACES = 20_000_000  # models x problems x the most trials of a cell


@dataclass(frozen=True)
class Layout:
    """One board. `values`, `scores` and `spreads` are (models, problems, trials), with NaN where there is nothing.

    `values` are what is averaged (0 for failures and leaks), `scores` those that count, `counts` the trials of a cell.
    """

    models: tuple[str, ...]
    problems: tuple[str, ...]
    target: str
    values: Array
    scores: Array
    spreads: Array
    leaks: Array
    counts: NDArray[np.int64]

    @cached_property
    def means(self) -> Array:
        """Mean value of each cell; NaN where there is no trial."""
        return _mean(np.nansum(self.values, axis=2), self.counts)

    @cached_property
    def pass_rates(self) -> Array:
        """Share of passes of each cell."""
        return _mean(np.isfinite(self.scores).sum(axis=2), self.counts)

    @cached_property
    def leak_rates(self) -> Array:
        """Share of leaks of each cell."""
        return _mean(np.nansum(self.leaks, axis=2), self.counts)

    @cached_property
    def within(self) -> Array:
        """Variance of the values between the trials of each model's cells, (models,); NaN without two trials."""
        deviations = np.nansum((self.values - self.means[:, :, None]) ** 2, axis=(1, 2))
        free = np.maximum(self.counts - 1, 0).sum(axis=1)
        return _mean(deviations, free)

    @cached_property
    def errors(self) -> tuple[Array, Array]:
        """Variance of each cell's mean by its trials, and degrees of freedom; a lone trial has its model's variance.

        Trials that all passed, or all failed, vary less than others would: what one that goes the other way would
        change is added, as probable as the model's other trials make it. NaN where there is no trial, or no cell of
        the model has two.
        """
        free = np.maximum(self.counts - 1, 0)
        own = _mean(np.nansum((self.values - self.means[:, :, None]) ** 2, axis=2), free)
        usual = np.where(self.counts > 0, self.within[:, None], np.nan)
        shared = np.broadcast_to(free.sum(axis=1)[:, None], free.shape)
        variance = np.where(free == 0, usual, own) + self._unseen
        return variance / np.maximum(self.counts, 1), np.where(free == 0, shared, free).astype(np.float64)

    @cached_property
    def _unseen(self) -> Array:
        """Variance of a trial in cells whose trials all passed or all failed, by what a pass is worth there."""
        passed = np.isfinite(self.scores)
        passes = passed.sum(axis=2)
        model = (passes.sum(axis=1) + 1) / (self.counts.sum(axis=1) + 2)
        chance = (passes + model[:, None]) / (self.counts + 1)
        totals = np.nansum(self.scores, axis=2)
        everyone = _mean(totals.sum(axis=0), passes.sum(axis=0))
        worth = np.where(passes > 0, totals / np.maximum(passes, 1), np.nan_to_num(everyone))
        return np.asarray(np.where((passes == 0) | (passes == self.counts), chance * (1 - chance) * worth**2, 0.0))


def _mean(total: NDArray[np.generic], count: NDArray[np.int64]) -> Array:
    mean: Array = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
    return mean


def lay_out(rows: Sequence[Row], target: str | None = None) -> Layout:
    """The rows of one target as arrays. Raises StatisticsError where there are none, several targets, or too many."""
    if len(rows) > MAX_ROWS:
        raise StatisticsError(f"there are more than {MAX_ROWS:,} rows")
    targets = sorted({row.target for row in rows})
    if target is None and len(targets) > 1:
        raise StatisticsError(f"the rows are of {len(targets)} targets, whose shares do not compare: name one")
    chosen = [row for row in rows if target is None or row.target == target]
    if not chosen:
        raise StatisticsError("there are no rows" if target is None else f"no row is of the target {target}")
    models, problems = _names(chosen, "model", MAX_MODELS), _names(chosen, "problem", MAX_PROBLEMS)
    cells = Counter((row.model, row.problem) for row in chosen if row.counted)
    most = max(cells.values(), default=1)
    if most > MAX_TRIALS:
        raise StatisticsError(f"a cell has {most:,} trials; at most {MAX_TRIALS:,} are read")
    if len(models) * len(problems) * most > MAX_PLACES:
        raise StatisticsError(f"models x problems x trials are more than {MAX_PLACES:,}")
    values, scores, spreads, leaks = (np.full((len(models), len(problems), most), np.nan) for _ in range(4))
    counts = np.zeros((len(models), len(problems)), dtype=np.int64)
    place_of_model = {name: place for place, name in enumerate(models)}
    place_of_problem = {name: place for place, name in enumerate(problems)}
    last: tuple[str, str, int] | None = None
    for row in sorted(chosen, key=lambda row: (row.model, row.problem, row.trial)):
        if (row.model, row.problem, row.trial) == last:
            raise StatisticsError(f"trial {row.trial} of {row.model} on {row.problem} is there twice")
        last = (row.model, row.problem, row.trial)
        if not row.counted:
            continue
        cell = place_of_model[row.model], place_of_problem[row.problem]
        place = (*cell, counts[cell])
        counts[cell] += 1
        values[place], leaks[place] = row.value, row.leak
        if row.passed:
            scores[place] = row.value
            spreads[place] = np.nan if row.spread is None else row.spread
    return Layout(models, problems, chosen[0].target, values, scores, spreads, leaks, counts)


def _names(rows: Iterable[Row], field: str, most: int) -> tuple[str, ...]:
    names = {str(getattr(row, field)) for row in rows}
    if len(names) > most:
        raise StatisticsError(f"there are {len(names):,} {field}s; at most {most:,} are compared")
    return tuple(sorted(names))
