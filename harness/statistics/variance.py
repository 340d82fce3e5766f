"""How much of the spread between trials is the agent's, and how much the clock's.

Scores that count are compared on a logarithmic scale, where a standard deviation is a share of the score. A trial's
score is its cell's centre, what the agent did otherwise this time, and the error of the clock, which the grader tells
as the row's `spread`: a random-effects model with known errors, as of a meta-analysis whose studies are trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.statistics.intervals import Interval, student
from harness.statistics.layout import Array, Layout

try:
    from scipy import special
except ImportError as error:
    raise ImportError("statistics need numpy and scipy: pip install '.[stats]'") from error

__all__ = ["Deviation", "Split", "split"]

LEAST_SCORE = 1e-9
MOST_VARIANCE = 1e4  # of a logarithm: nothing that was measured spreads wider
LEAST_LOG = -30.0
POINTS, ROUNDS = 16, 6  # of a search that narrows
HIDDEN = 2.5  # times as heavy as they look are tails
LEAST_SHARE = 1e-3  # of the mean variance, that a problem's counts as at least
MOST_LOG = 50.0


@dataclass(frozen=True, slots=True)
class Deviation:
    """A standard deviation as a share of the score, with its interval."""

    value: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Split:
    """Where trials of a cell differ: `agent` from one session to the next, `clock` from one grading to the next.

    Made from `trials` scores in `cells` cells with two or more. `agent` is None where there is no such cell; `clock` is
    None where no row tells a spread, and `agent` then holds the clock's share too.
    """

    agent: Deviation | None
    clock: Deviation | None
    trials: int
    cells: int


def split(layout: Layout, level: float = 0.95) -> tuple[Split, tuple[Split, ...]]:
    """Splits the variance between trials: over all cells of a board, and over each model's cells."""
    models, problems, _ = layout.scores.shape
    errors = layout.spreads**2
    everywhere = np.arange(models * problems).reshape(models, problems)
    whole, heavy = _split(layout.scores, errors, everywhere.ravel(), level, 1.0)
    return whole, tuple(_split(layout.scores, errors, cells, level, heavy)[0] for cells in everywhere)


def _split(scores: Array, errors: Array, cells: NDArray[np.int64], level: float, heavy: float) -> tuple[Split, float]:
    """Of some cells, by their places; `heavy` is how many times as many degrees of freedom normal tails would be worth.

    Returns these cells' own `heavy`, too.
    """
    problems = cells % scores.shape[1]
    scores, errors = (one.reshape(-1, one.shape[2])[cells] for one in (scores, errors))
    clock = _clock(errors, problems, level)
    usual = float(np.nanmean(errors)) if clock is not None else 0.0
    there = np.isfinite(scores) & (scores > LEAST_SCORE)
    several = there.sum(axis=1) > 1
    there = there[several]
    if not len(there):
        return Split(None, clock, 0, 0), 1.0
    logs = np.log(scores[several], where=there, out=np.zeros(there.shape))
    known = np.where(np.isfinite(errors[several]), errors[several], usual)
    agent, heavy = _agent(logs, known, there, level, heavy)
    return Split(agent, clock, int(there.sum()), len(there)), heavy


def _agent(
    logs: Array, errors: Array, there: NDArray[np.bool_], level: float, heavy: float
) -> tuple[Deviation, float]:  # fmt: skip
    """Paule and Mandel's estimate, and Viechtbauer's interval from the same sum of squares.

    The weighted sum of squares within cells follows chi-squared, with the trials less the cells as degrees of freedom,
    where the variance is the true one; it falls as the variance that is asked about grows. Where the cells' sums differ
    more than chi-squared ones do, sessions have heavy tails, and the degrees of freedom are fewer by more than as much:
    few cells show too little of such tails.
    """
    free = there.sum(axis=1) - 1
    degrees = float(free.sum())

    def squares(variances: Array) -> Array:
        """Of each cell, (variances, cells)."""
        weights = np.where(there, 1 / np.maximum(variances[:, None, None] + errors, 1e-18), 0.0)
        centres = (weights * logs).sum(axis=2) / weights.sum(axis=2)
        return np.asarray((weights * (logs - centres[:, :, None]) ** 2).sum(axis=2))

    value = _where(squares, np.array([degrees]))
    each = squares(value)[0]
    seen = float(((each - free) ** 2).sum()) / (2 * degrees)
    heavy = max(heavy, 1 + HIDDEN * (seen - 1))
    worth = max(degrees / heavy, 1.0)
    tail = (1 - level) / 2
    ends = _where(squares, degrees / worth * np.array([special.chdtri(worth, tail), special.chdtri(worth, 1 - tail)]))
    low, high = np.sqrt(ends).tolist()
    return Deviation(math.sqrt(float(value[0])), Interval(low, high)), heavy


def _where(squares: Callable[[Array], Array], wanted: Array) -> Array:
    """The variances at which the falling sum of squares is as wanted; 0 where it is less from the start."""
    low, high = np.full(len(wanted), LEAST_LOG), np.full(len(wanted), math.log(MOST_VARIANCE))
    for _ in range(ROUNDS):
        points = np.linspace(low, high, POINTS)
        sums = squares(np.exp(points.ravel())).sum(axis=1).reshape(points.shape)
        below = np.clip((sums > wanted).sum(axis=0), 1, POINTS - 1)
        low, high = (points[place, np.arange(len(wanted))] for place in (below - 1, below))
    return np.asarray(np.where(squares(np.zeros(1)).sum() <= wanted, 0.0, np.exp(high)))


def _clock(errors: Array, problems: NDArray[np.int64], level: float) -> Deviation | None:
    """The mean variance over problems, and Cox's interval of the mean of what is lognormal between them.

    Olsson's form of it, with Student's quantile.
    """
    known = np.isfinite(errors)
    each = np.array([errors[problems == one][known[problems == one]].mean()
                     for one in np.unique(problems) if known[problems == one].any()])  # fmt: skip
    if not len(each):
        return None
    mean = float(each.mean())
    value = math.sqrt(mean)
    if len(each) < 2 or mean <= 0:
        return Deviation(value, Interval(0.0, math.inf))
    logs = np.log(np.maximum(each, mean * LEAST_SHARE))
    spread = float(logs.var(ddof=1))
    reach = student(level, len(each) - 1) * math.sqrt(spread / len(each) + spread**2 / (2 * (len(each) - 1)))
    low, high = (math.exp(min((float(logs.mean()) + spread / 2 + way) / 2, MOST_LOG)) for way in (-reach, reach))
    return Deviation(value, Interval(min(low, value), max(high, value)))
