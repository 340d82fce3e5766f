"""How far repeats of a grading would lie apart, by what one grading saw.

A spread is the standard error of the time that is scored, as a share of it: what the coefficient of variation of many
such gradings would be. It can be held against what is allowed between gradings, whatever it was worked out of. What
differs between processes only (addresses, a kernel that is tuned anew) shows only where there are several trials.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

__all__ = ["REPEATS", "of_batches", "of_samples", "of_trials"]

REPEATS = 3  # the fewest batches, and parts of the samples, that a spread is worked out of
OUTSIDE = 0.05  # the probability that a median's interval is to leave the median out
CHANCE = 0.01  # with which thirds of steady samples may be taken for samples that move


def of_samples(samples: Sequence[float]) -> float | None:
    """Of the median of samples in their order; None with fewer than six.

    The standard error comes from the interval between two order statistics, which holds the median with a probability
    that is known whatever the distribution. Samples are not independent where a clock or a temperature moves. Of three
    parts of steady samples, the squared coefficient of variation of the medians is exponentially distributed with the
    mean 3 times the squared error (chi-squared with two degrees of freedom); where it is larger than chance would have
    it, the parts are the repeats.
    """
    rank = _rank(len(samples))
    middle = statistics.median(samples) if samples else 0.0
    if rank is None or not middle > 0:
        return None
    ordered = sorted(samples)
    low, high = ordered[rank - 1], ordered[len(ordered) - rank]
    outside = 2 * _at_most(rank - 1, len(samples))
    error = (high - low) / 2 / statistics.NormalDist().inv_cdf(1 - outside / 2) / middle
    parts = _thirds(samples)
    moved = statistics.stdev(parts) / middle if parts else 0.0
    return moved if moved**2 > -math.log(CHANCE) * 3 * error**2 else error


def of_batches(times: Sequence[float]) -> float | None:
    """Of the median of a few independent times; None with fewer than three."""
    return _of_median(times) if len(times) >= REPEATS else None


def of_trials(times: Sequence[float], within: Sequence[float | None]) -> float | None:
    """Of the median over trials, by their times and by the spread within each; None where neither is known.

    Both count, and the larger one is taken: few trials may agree by chance.
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


def _rank(count: int) -> int | None:
    """The largest r for which the r-th and the r-th last of `count` hold the median between them often enough."""
    rank = 0
    while rank < count // 2 and 2 * _at_most(rank, count) <= OUTSIDE:
        rank += 1
    return rank or None


def _at_most(heads: int, count: int) -> float:
    """The probability of so many heads or fewer in `count` throws of a coin."""
    return sum(math.comb(count, k) for k in range(heads + 1)) / (1 << count)


def _thirds(samples: Sequence[float]) -> list[float]:
    """Medians of three parts in order; none where a part would have fewer than three samples."""
    if len(samples) < 3 * REPEATS:
        return []
    cuts = [len(samples) * part // 3 for part in range(4)]
    return [statistics.median(samples[low:high]) for low, high in zip(cuts, cuts[1:], strict=False)]
