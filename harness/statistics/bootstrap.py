"""A hierarchical bootstrap: problems are drawn again, and in each the trials of every model's cell.

All models meet the same problems of a draw, so that what they share cancels in their differences.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.statistics.layout import Array, Layout
from harness.statistics.rows import StatisticsError

__all__ = ["MAX_RESAMPLES", "resampled_scores"]

MAX_RESAMPLES = 100_000
PLACES = 2_000_000  # that are drawn at a time


def resampled_scores(layout: Layout, seed: int, resamples: int = 10_000) -> Array:
    """Scores in each resample, (resamples, models); NaN where no drawn problem has a trial of the model."""
    if not 1 <= resamples <= MAX_RESAMPLES:
        raise StatisticsError(f"resamples are 1 to {MAX_RESAMPLES:,}, not {resamples}")
    models, problems, trials = layout.values.shape
    random = np.random.default_rng(seed)
    values = np.nan_to_num(layout.values.transpose(1, 0, 2)).reshape(-1)
    counts = layout.counts.T
    whole = bool((counts == trials).all())
    cells = (np.arange(problems)[:, None] * models + np.arange(models)).astype(np.int64)
    scores = np.empty((resamples, models))
    at_once = max(PLACES // layout.values.size, 1)
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        drawn = random.integers(0, problems, (size, problems))
        scores[start : start + size] = _drawn(random, values, counts[drawn], cells[drawn], trials, whole)
    return scores


def _drawn(
    random: np.random.Generator, values: Array, counts: NDArray[np.int64], cells: NDArray[np.int64], trials: int,
    whole: bool,
) -> Array:  # fmt: skip
    """Scores of a few resamples; `counts` and `cells` are (resamples, problems, models)."""
    share = random.random((*counts.shape, trials), dtype=np.float32)
    picked = np.minimum((share * counts[..., None]).astype(np.int64), np.maximum(counts - 1, 0)[..., None])
    taken = values[cells[..., None] * trials + picked]
    if whole:
        return np.asarray(taken.mean(axis=(1, 3)))
    taken *= np.arange(trials) < counts[..., None]
    means = taken.sum(axis=3) / np.maximum(counts, 1)
    graded = (counts > 0).sum(axis=1)
    scores: Array = np.divide(means.sum(axis=1), graded, out=np.full(graded.shape, np.nan), where=graded > 0)
    return scores
