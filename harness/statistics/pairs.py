"""Two models at a time: who is surely ahead, who is the same within a margin, and what it would take to tell.

Only problems that both were graded on count, and only the difference on each: what makes one hard for both cancels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.statistics.intervals import NOTHING, Interval, Over, least_variance
from harness.statistics.layout import Array, Layout

try:
    from scipy import special
except ImportError as error:
    raise ImportError("statistics need numpy and scipy: pip install '.[stats]'") from error

__all__ = ["MOST_TRIALS", "Comparison", "Pair", "Relation", "compare", "holm"]

Relation = Literal["ahead", "behind", "same", "cannot tell"]
MOST_TRIALS = 100  # more of each cell that are ever asked for
POWER = 0.8
FAR = 50.0  # standard errors


@dataclass(frozen=True, slots=True)
class Pair:
    """What is known of `first` against `second`. `difference` is of their scores on common problems.

    `interval` is of this difference alone; `p` is the chance of such a lead by luck, corrected for all comparisons.
    Where it cannot be told, `trials` more of each cell would probably tell; None where 100 would not, and then `short`
    says whether trials or problems are too few, or that without two trials of a cell nobody knows ("repeats").
    """

    first: str
    second: str
    relation: Relation
    difference: float | None
    interval: Interval | None
    p: float
    problems: int
    trials: int | None = None
    short: str = ""

    @property
    def sentence(self) -> str:
        """The relation of the two models, in words."""
        if self.relation != "cannot tell":
            return self.relation
        if self.trials is not None:
            return f"cannot tell, needs about {self.trials} more trials a cell"
        if self.short == "repeats":
            return "cannot tell, needs two trials of a cell to say how many"
        if self.short == "problems":
            return "cannot tell, needs more problems"
        return f"cannot tell, needs more than {MOST_TRIALS} more trials a cell"


@dataclass(frozen=True, slots=True)
class Comparison:
    """All pairs; `better[i, j]`: model i is surely better than j, by itself or through models between them."""

    pairs: tuple[Pair, ...]
    better: NDArray[np.bool_]


def holm(p: Array, total: int | None = None) -> Array:
    """Holm's adjusted p values of one family of `total` hypotheses (those that are missing have p = 1)."""
    count = len(p) if total is None else total
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * (count - np.arange(len(p))))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def compare(layout: Layout, margin: float, level: float = 0.95, over: Over = "problems") -> Comparison:
    """Compares all pairs of a board's models; scores that differ by at most `margin` count as the same."""
    means, models = layout.means, len(layout.models)
    scores = np.array([row[np.isfinite(row)].mean() if np.isfinite(row).any() else np.nan for row in means])
    difference, variance, degrees, common = _apart(layout, means) if over == "problems" else _deck_apart(layout, means)
    size = np.maximum(*(np.nan_to_num(side) for side in np.broadcast_arrays(scores[:, None], scores)))
    errors = np.sqrt(np.maximum(variance, least_variance(size) / np.maximum(common, 1)))
    known = np.isfinite(difference) & np.isfinite(errors) & (errors > 0)
    ratio = np.divide(difference, errors, out=np.zeros_like(difference), where=known)
    corrected = _corrected(np.where(known, special.stdtr(degrees, -ratio), 1.0))
    better = _closed((corrected <= 1 - level) & (scores[:, None] > scores[None, :]))
    first, second = np.triu_indices(models, 1)
    upper = (first, second)
    hidden = _hidden(means, common, margin) if over == "problems" else np.zeros(common.shape)
    equal = _equal(np.where(known, difference, np.nan)[upper], errors[upper], degrees[upper], margin, hidden[upper])
    half = special.stdtrit(degrees, (1 + level) / 2) * errors
    trials, short = _needed(
        layout, np.where(known, difference, np.nan), errors**2 * common, degrees, common, level, over
    )
    pairs = []
    for place, (one, two) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        relation = _relation(bool(better[one, two]), bool(better[two, one]), equal[place] <= (1 - level) / 2)
        told, apart = relation != "cannot tell", float(difference[one, two])
        reach = float(half[one, two])
        pairs.append(Pair(
            layout.models[one], layout.models[two], relation, apart if common[one, two] else None,
            Interval(apart - reach, apart + reach) if known[one, two] else None,
            float(min(corrected[one, two], corrected[two, one])), int(common[one, two]),
            None if told or not 0 < trials[one, two] <= MOST_TRIALS else int(trials[one, two]),
            "" if told else str(short[one, two]),
        ))  # fmt: skip
    return Comparison(tuple(pairs), better)


Apart: TypeAlias = tuple[Array, Array, Array, NDArray[np.int64]]


def _apart(layout: Layout, means: Array) -> Apart:
    """Differences of scores, variances of these, their degrees of freedom, and how many problems are common.

    Over problems: what differs from problem to problem holds the trials' noise, too.
    """
    models, there = len(means), np.isfinite(means)
    common = there.astype(np.int64) @ there.T.astype(np.int64)
    difference, variance = np.full((models, models), np.nan), np.full((models, models), np.nan)
    for one in range(models):
        known = common[one] > 0
        each = means[one] - means[known]
        difference[one, known] = np.nanmean(each, axis=1)
        several = common[one, known] > 1
        variance[one, np.flatnonzero(known)[several]] = np.nanvar(each[several], axis=1, ddof=1)
    np.fill_diagonal(variance, np.nan)
    return difference, variance / np.maximum(common, 1), np.maximum(common - 1, 1).astype(np.float64), common


def _deck_apart(layout: Layout, means: Array) -> Apart:
    """The same on the deck's own problems: only trials vary, and Satterthwaite's degrees of freedom are theirs."""
    difference, _, _, common = _apart(layout, means)
    errors, free = layout.errors
    there = np.isfinite(means).astype(np.float64)
    squares = np.divide(errors**2, free, out=np.zeros_like(errors), where=free > 0)
    variance, doubled = (np.nan_to_num(one) @ there.T for one in (errors, squares))
    variance, doubled = variance + variance.T, doubled + doubled.T
    degrees = np.divide(variance**2, doubled, out=np.ones_like(variance), where=doubled > 0)
    lacking = (~np.isfinite(errors)).any(axis=1) & (np.isfinite(means) & ~np.isfinite(errors)).any(axis=1)
    variance[lacking, :] = variance[:, lacking] = np.nan
    np.fill_diagonal(variance, np.nan)
    return difference, variance / np.maximum(common, 1) ** 2, np.maximum(degrees, 1.0), common


def _relation(ahead: bool, behind: bool, same: bool) -> Relation:
    return "ahead" if ahead else "behind" if behind else "same" if same else "cannot tell"


def _corrected(alone: Array) -> Array:
    """One-sided p values, [i, j] of i being no better than j, corrected so that any false lead of the board is rare.

    The leads over one model are a family, corrected by Holm; the families, one a model, by Bonferroni. Holm's method
    over all pairs at once would let a model that improves pull another over the line against itself.
    """
    models = len(alone)
    corrected = np.ones((models, models))
    for one in range(models):
        others = np.arange(models) != one
        corrected[others, one] = np.minimum(holm(alone[others, one]) * models, 1.0)
    return corrected


def _closed(better: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """With what follows: better than one that is better."""
    closed = better.copy()
    for middle in range(len(closed)):
        closed |= closed[:, middle, None] & closed[None, middle, :]
    return closed


def _equal(difference: Array, errors: Array, degrees: Array, margin: float, hidden: Array) -> Array:
    """Two one-sided tests of each pair against the margin, by the worst of these and `hidden`; by Holm over all pairs.

    Of two models of which neither has scored, `hidden` says everything.
    """
    known = np.isfinite(difference) & (errors > 0)
    alone = np.where(known | (hidden == 0), 1.0, 0.0)
    alone[known] = special.stdtr(degrees[known], -(margin - np.abs(difference[known])) / errors[known])
    return holm(np.maximum(alone, hidden))


def _hidden(means: Array, common: NDArray[np.int64], margin: float) -> Array:
    """How likely a model that scores more than the margin on problems like these has scored on none of the common ones.

    A mean of m needs a score on at least a share m of all problems, as none is above 1. 0 where both have scored.
    """
    there = np.isfinite(means).astype(np.int64)
    scored = (np.nan_to_num(means) > NOTHING).astype(np.int64) @ there.T
    never = (scored == 0) | (scored.T == 0)
    return np.asarray(np.where(never, (1 - margin) ** common, 0.0))


def _needed(
    layout: Layout,
    difference: Array,
    variance: Array,
    degrees: Array,
    common: NDArray[np.int64],
    level: float,
    over: Over,
) -> tuple[NDArray[np.int64], NDArray[np.str_]]:
    """Trials more of each cell for a power of 0.8 at the difference that was seen, and what is short without them.

    `variance` is that of the difference on one problem.
    """
    models, counts = len(layout.models), layout.counts
    per_trial = np.divide(1.0, counts, out=np.zeros(counts.shape), where=counts > 0).sum(axis=1)
    now = (counts > 0).sum(axis=1) / np.maximum(per_trial, 1e-9)
    within = np.nan_to_num(layout.within)
    mine = within / np.maximum(now, 1)
    noise = mine[:, None] + mine[None, :] if over == "problems" else variance
    stays = np.maximum(variance - noise, 0.0)
    line = special.stdtrit(degrees, 1 - (1 - level) / max(models * (models - 1), 1))
    base = np.maximum(np.minimum(now[:, None], now[None, :]), 1)

    def tells(more: Array | float) -> NDArray[np.bool_]:
        error = np.sqrt((stays + noise * base / (base + more)) / np.maximum(common, 1))
        centre = np.abs(np.nan_to_num(difference)) / np.maximum(error, 1e-12)
        power = 1 - special.nctdtr(degrees, np.minimum(centre, FAR), np.minimum(line, 1e6))
        return np.asarray(
            np.where(centre > FAR, centre > line + 10, power >= POWER) & np.isfinite(difference + variance)
        )

    low, high = np.zeros((models, models)), np.full((models, models), MOST_TRIALS + 1.0)
    for _ in range(math.ceil(math.log2(MOST_TRIALS + 1))):
        middle = np.maximum(np.floor((low + high) / 2), 1)
        enough = tells(middle)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    short = np.where(high <= MOST_TRIALS, "", np.where(tells(1e12), "trials", "problems"))
    unknown = ~np.isfinite(layout.within)
    repeats = (unknown[:, None] | unknown[None, :]) & (common > (1 if over == "problems" else 0))
    short, high = np.where(repeats, "repeats", short), np.where(repeats, MOST_TRIALS + 1, high)
    return high.astype(np.int64), short
