"""How far repeats of a grading would lie apart, by what one grading saw.

A spread is the standard error of the time that is scored, as a share of it: what the coefficient of variation of many
such gradings would be. It can be held against what is allowed between gradings, whatever it was worked out of. What
differs between processes only (addresses, what a tuner in C++ chooses) shows only where there are several trials.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

__all__ = ["MEDIAN", "REPEATS", "Wanted", "middle", "of_batches", "of_samples", "of_trials"]

REPEATS = 3  # the fewest batches, and parts of the samples, that a spread is worked out of
OUTSIDE = 0.05  # the probability that a median's interval is to leave the median out
MEDIAN = 0.5  # as a share that is trimmed at each end
CHANCE = 0.01  # with which thirds of steady samples may be taken for samples that move


@dataclass(frozen=True, slots=True)
class Wanted:
    """How well the middle of samples should be known: its standard error, as a share, is to be `error` at most.

    That is so for times from `least` to `most` seconds; others may vary by more.
    """

    error: float
    least: float = 0.0
    most: float = math.inf

    def of(self, seconds: float) -> bool:
        """Whether this applies to a call that takes so many seconds."""
        return self.least <= seconds <= self.most


def middle(samples: Sequence[float], trim: float) -> float:
    """The mean of samples without the share `trim` at each end; the median where that leaves none.

    Times of a short kernel on a GPU have two modes where they depend on where tensors lie. A median falls into one of
    them or the other; a mean moves only as far as the modes' shares do.
    """
    cut = int(trim * len(samples)) if 0 <= trim < MEDIAN else len(samples)
    left = sorted(samples)[cut : len(samples) - cut] if 2 * cut < len(samples) else []
    return statistics.fmean(left) if left else statistics.median(samples)


def of_samples(samples: Sequence[float], trim: float = MEDIAN) -> float | None:
    """The relative standard error of the trimmed mean of `samples`, which are in the order in which they were taken;
    None with fewer than six.

    Samples are not independent where a clock or a temperature moves. Of three parts of steady samples, the squared
    coefficient of variation of the middles is exponentially distributed with the mean 3 times the squared error
    (chi-squared with two degrees of freedom); where it is larger than chance would have it, the parts are the repeats.
    """
    rank = _rank(len(samples))
    centre = middle(samples, trim) if samples else 0.0
    if rank is None or not centre > 0:
        return None
    error = (_of_median_of(samples, rank) if trim >= MEDIAN else _of_trimmed(samples, trim)) / centre
    parts = _thirds(samples, trim)
    moved = statistics.stdev(parts) / centre if parts else 0.0
    return moved if moved**2 > -math.log(CHANCE) * 3 * error**2 else error


def _of_median_of(samples: Sequence[float], rank: int) -> float:
    """Standard error from the interval between two order statistics.

    It holds the median with a probability that is known whatever the distribution.
    """
    ordered = sorted(samples)
    low, high = ordered[rank - 1], ordered[len(ordered) - rank]
    outside = 2 * _at_most(rank - 1, len(samples))
    return (high - low) / 2 / statistics.NormalDist().inv_cdf(1 - outside / 2)


def _of_trimmed(samples: Sequence[float], trim: float) -> float:
    """Standard error of a trimmed mean: that of the samples with the ends drawn in, over the share that is left."""
    ordered, count = sorted(samples), len(samples)
    cut = int(trim * count)
    low, high = ordered[cut], ordered[count - cut - 1]
    inner = [min(max(sample, low), high) for sample in ordered]
    return statistics.stdev(inner) / (1 - 2 * cut / count) / math.sqrt(count)


def of_batches(times: Sequence[float]) -> float | None:
    """The relative standard error of the median of a few independent `times`; None with fewer than three."""
    return _of_median(times) if len(times) >= REPEATS else None


def of_trials(times: Sequence[float], within: Sequence[float | None]) -> float | None:
    """The relative spread of the median over trials: the larger of what their `times` give and what the spreads
    `within` each trial give, since few trials may agree by chance. None where neither is known.
    """
    known = [spread for spread in within if spread is not None]
    inner = math.sqrt(statistics.fmean(spread**2 for spread in known)) * _shrink(len(times)) if known else None
    outer = _of_median(times) if len(times) >= REPEATS or (len(times) > 1 and known) else None
    return max((spread for spread in (inner, outer) if spread is not None), default=None)


def _of_median(times: Sequence[float]) -> float:
    mean = statistics.fmean(times)
    return statistics.stdev(times) / mean * _shrink(len(times)) if mean > 0 else 0.0


def _shrink(count: int) -> float:
    """How much the median of `count` repeats varies beside one: sqrt(pi / 2n), up to a quarter over it for small n."""
    return min(1.0, math.sqrt(math.pi / (2 * count)))


@cache
def _rank(count: int) -> int | None:
    """The largest r for which the r-th and the r-th last of `count` hold the median between them often enough."""
    rank, ways = 0, 1
    while rank < count // 2 and 2 * ways / (1 << count) <= OUTSIDE:
        rank += 1
        ways += math.comb(count, rank)
    return rank or None


def _at_most(heads: int, count: int) -> float:
    """The probability of so many heads or fewer in `count` throws of a coin."""
    return sum(math.comb(count, k) for k in range(heads + 1)) / (1 << count)


def _thirds(samples: Sequence[float], trim: float) -> list[float]:
    """Middles of three parts in order; none where a part would have fewer than three samples."""
    if len(samples) < 3 * REPEATS:
        return []
    cuts = [len(samples) * part // 3 for part in range(4)]
    return [middle(samples[low:high], trim) for low, high in zip(cuts, cuts[1:], strict=False)]
