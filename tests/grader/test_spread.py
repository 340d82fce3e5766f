"""Spreads: on samples whose error is known, and on those of the committed gradings."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable

import pytest
from stored import h200

from grader.record.spread import middle, of_batches, of_samples, of_trials
from grader.report.view import load_view

RESULTS = h200()
Draw = Callable[[random.Random], float]
NORMAL: Draw = lambda rng: 100 + 2 * rng.gauss(0, 1)  # noqa: E731
LATE: Draw = lambda rng: 100 + 2 * rng.expovariate(1)  # noqa: E731
OUTLIERS: Draw = lambda rng: 100 + rng.gauss(0, 1) * (40 if rng.random() < 0.05 else 2)  # noqa: E731


def runs(draw: Draw, count: int, *, drift: float = 0.0, of: int = 300) -> tuple[float, list[float]]:
    """The coefficient of variation of the medians of many runs, and the spread that each run tells."""
    rng = random.Random(count)
    found = [[draw(rng) * (1 + drift * i / count) for i in range(count)] for _ in range(of)]
    medians = [statistics.median(samples) for samples in found]
    spreads = [spread for spread in map(of_samples, found) if spread is not None]
    return statistics.stdev(medians) / statistics.fmean(medians), spreads


@pytest.mark.parametrize("draw", [NORMAL, LATE, OUTLIERS], ids=["normal", "late", "outliers"])
@pytest.mark.parametrize("count", [10, 30, 120])
def test_one_run_tells_how_far_the_medians_of_many_lie_apart(draw: Draw, count: int) -> None:
    true, spreads = runs(draw, count)
    assert len(spreads) == 300
    assert 0.75 * true < statistics.median(spreads) < 1.3 * true


@pytest.mark.parametrize("draw", [NORMAL, LATE, OUTLIERS], ids=["normal", "late", "outliers"])
def test_one_run_tells_how_far_the_trimmed_means_of_many_lie_apart(draw: Draw) -> None:
    rng = random.Random(7)
    found = [[draw(rng) for _ in range(100)] for _ in range(300)]
    means = [middle(samples, 0.1) for samples in found]
    true = statistics.stdev(means) / statistics.fmean(means)
    told = statistics.median(spread for samples in found if (spread := of_samples(samples, 0.1)) is not None)
    assert 0.75 * true < told < 1.3 * true


def test_a_middle_of_two_modes_moves_no_more_than_their_shares_do() -> None:
    rng = random.Random(7)
    found = []
    for _ in range(200):
        modes = [rng.choice((8.0, 8.8)) for _ in range(8)]  # eight places in memory
        found.append([modes[i % 8] + rng.gauss(0, 0.05) for i in range(100)])
    trimmed, medians = ([middle(samples, trim) for samples in found] for trim in (0.1, 0.5))
    assert statistics.stdev(trimmed) < 0.6 * statistics.stdev(medians)


@pytest.mark.parametrize("trim", [0.5, 0.7, -0.1, math.nan])
def test_a_middle_without_samples_left_is_the_median(trim: float) -> None:
    assert middle([1.0, 2.0, 9.0], trim) == 2.0
    assert middle([1.0, 2.0, 3.0, 100.0, 0.0], 0.2) == 2.0


def test_samples_that_move_while_they_are_taken_spread_as_far_as_they_move() -> None:
    _, still = runs(NORMAL, 120)
    _, moving = runs(NORMAL, 120, drift=0.05)
    assert statistics.median(moving) == pytest.approx(0.05 / 3, rel=0.3)  # thirds lie a third of the way apart
    assert statistics.median(still) < 0.003


def test_equal_samples_have_no_spread_and_few_have_none_that_is_known() -> None:
    assert of_samples([1.0] * 30) == 0.0
    assert of_samples([1.0] * 5) is None and of_samples([]) is None and of_batches([1.0, 2.0]) is None


def test_a_spread_is_a_share_of_the_time() -> None:
    samples = [90.0, 95.0, 100.0, 105.0, 110.0, 90.5] * 4
    assert of_samples([1e-6 * one for one in samples]) == pytest.approx(of_samples(samples))


def test_more_trials_make_the_median_surer() -> None:
    three, six = [99.0, 100.0, 101.0], [99.0, 100.0, 101.0] * 2
    assert of_batches(three) == pytest.approx(0.01 * math.sqrt(math.pi / 6))
    assert of_trials(six, [None] * 6) == pytest.approx(statistics.stdev(six) / 100 * math.sqrt(math.pi / 12))
    assert of_trials([100.0], [0.01]) == 0.01
    assert of_trials([100.0] * 4, [0.01] * 4) == pytest.approx(0.01 * math.sqrt(math.pi / 8))
    assert of_trials([98.0, 102.0], [0.001, 0.001]) == pytest.approx(2.828e-2 * math.sqrt(math.pi / 4), rel=1e-3)
    assert of_trials([98.0, 102.0], [None, None]) is None, "two trials alone tell no spread"


def test_the_committed_gradings_of_the_h200_tell_a_spread_at_every_shape() -> None:
    found = [
        (of_samples(timing.claimed), of_batches([batch.per_call for batch in timing.sealed]))
        for folder in sorted(RESULTS.glob("*-triton-h200-*"))
        for trial in load_view(folder).cell.trials
        for timing in (shape.timing for shape in trial.shapes)
        if timing is not None
    ]
    claimed = [error for error, _ in found if error is not None]
    assert len(claimed) == len(found) >= 35
    assert max(claimed) < 0.03, "single trials of 30 samples know the median of their own claims to 3 %"
