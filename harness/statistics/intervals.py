"""Intervals of shares: Wilson's, for plain trials and for means over problems.

Scores, passes and leaks are shares between 0 and 1, with failures at 0 and few problems: their means are skewed. An
interval of Wilson's form takes the variance at the share that is asked about and not at the one that was seen, so that
it reaches farther to the side where the variance is larger, and never leaves 0 to 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.statistics.layout import Array

try:
    from scipy import special
except ImportError as error:
    raise ImportError("statistics need numpy and scipy: pip install '.[stats]'") from error

__all__ = ["FLOOR", "NOTHING", "Interval", "Over", "least_variance", "of_mean", "of_rate", "student", "wilson"]

Over = Literal["problems", "deck"]
FLOOR = 1e-3  # a standard error, as a share, that no clock of a grading is below: what agrees better does so by chance
NOTHING = 1e-9  # a score that small is none


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, both ends included."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def width(self) -> float:
        """The length of the interval."""
        return self.high - self.low


def student(level: float, degrees: float) -> float:
    """The quantile q of Student's t for which [-q, q] holds the probability `level`."""
    return float(special.stdtrit(degrees, (1 + level) / 2))


def wilson(share: float, trials: float, level: float = 0.95, quantile: float | None = None) -> Interval:
    """Wilson's score interval of a share that was seen in `trials`, which may be an effective number."""
    z = float(special.ndtri((1 + level) / 2)) if quantile is None else quantile
    drawn = z * z / trials
    centre = (share + drawn / 2) / (1 + drawn)
    half = math.sqrt(drawn * max(share * (1 - share), 0.0) + drawn * drawn / 4) / (1 + drawn)
    return Interval(min(max(centre - half, 0.0), share), max(min(centre + half, 1.0), share))


def least_variance(scale: Array | float) -> Array:
    """The least variance that a score's error is taken to have, at scores of that size."""
    return np.asarray((FLOOR * np.abs(scale)) ** 2, dtype=np.float64)


def of_mean(means: Array, level: float = 0.95, errors: tuple[Array, Array] | None = None) -> Interval | None:
    """The interval of a model's expected score from its cell means; None with fewer than two problems.

    Without `errors` it speaks of problems like these: the variance between cell means holds the problems' differences
    and the trials' noise alike, so nothing need be known of either. With `errors` (variances of the cell means by their
    trials, and degrees of freedom, which Satterthwaite's formula joins) it speaks of these problems themselves. The
    variance gives the effective number of trials, and Student's quantile allows for there being few of them.
    """
    there = np.isfinite(means)
    count, mean = int(there.sum()), float(means[there].mean()) if there.any() else 0.0
    if count < (2 if errors is None else 1):
        return None
    if errors is None:
        variance, degrees = float(means[there].var(ddof=1)) / count, count - 1.0
    else:
        each, free = errors[0][there], errors[1][there]
        if not np.isfinite(each).all():
            return None
        total, squares = float(each.sum()), float((each**2 / free).sum())
        variance, degrees = total / count**2, max(total**2 / squares, 1.0) if squares > 0 else float(free.sum())
    if not NOTHING < mean < 1:
        return _never(mean, count, level)
    variance = max(variance, float(least_variance(mean)) / count)
    return wilson(mean, mean * (1 - mean) / variance, level, student(level, degrees))


def of_rate(rates: Array, counts: Array, level: float = 0.95, over: Over = "problems") -> Interval | None:
    """The interval of a model's probability of a pass (or a leak) from its rates in cells of `counts` trials.

    Over "problems" like these, trials on one problem are alike: the effective number of trials is what independent ones
    would need to be as sure as the rates over problems are, at most the trials that there are; None with fewer than two
    problems. Over the "deck" it is Wilson's of all trials, which is rather too wide, as each problem has its share of
    them.
    """
    there = counts > 0
    rates, trials, count = rates[there], float(counts[there].sum()), int(there.sum())
    if count < (2 if over == "problems" else 1):
        return None
    rate = float(rates.mean())
    if over == "deck":
        return wilson(rate, count**2 / float((1 / counts[there]).sum()), level)
    if not 0 < rate < 1:
        return wilson(rate, float(count), level)
    variance = float(rates.var(ddof=1)) / count
    effective = rate * (1 - rate) / variance if variance > 0 else math.inf
    return wilson(rate, min(effective, trials), level)


def _never(mean: float, count: int, level: float) -> Interval:
    """Where every problem gave 0 (or 1): the share of other problems that this can still hide (exact binomial)."""
    hidden = 1 - ((1 - level) / 2) ** (1 / count)
    return Interval(0.0, hidden) if mean <= NOTHING else Interval(1 - hidden, 1.0)
