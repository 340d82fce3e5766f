"""Whether the scores of a cell follow from its own samples, as far as that can be told without the problem.

The formulas are those of grader.score.scoring: the middle of a trial, the median over trials, the larger of the two
clocks, and geometric means over shapes. Which samples count depends on the problem's floors, so a claimed time is held
against the samples only where none was vetoed; the floor itself and the peak are taken from the cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

from grader.record.cell import Baseline, Cell, ShapeScore, ShapeTiming, alone_of, denies, geometric_mean
from grader.record.spread import middle

__all__ = ["score_faults"]

NEAR = 1e-9


def score_faults(cell: Cell) -> Iterator[str]:
    """A sentence for each number that does not follow from those it is worked out of."""
    for score in cell.shapes:
        yield from (
            f"the {what} of {score.shape[:80]} does not follow from its samples" for what in _wrong(cell, score)
        )
    for baseline in cell.baselines:
        if not _compared(cell, baseline):
            yield f"what it says of the baseline {baseline.name} does not follow from its times"
    if cell.scores is None:
        return
    if not cell.trials or any(trial.status != "right" for trial in cell.trials):
        yield "it has scores, though not every trial is right"
    for name in ("peak_fraction", "roofline_fraction", "attainable_fraction"):
        mean = getattr(cell.scores, name)
        if mean is not None and not _near(mean, _geometric([getattr(score, name) for score in cell.shapes])):
            yield f"its {name} is not the geometric mean of those of its shapes"


def _compared(cell: Cell, baseline: Baseline) -> bool:
    """Whether a baseline's times follow from its two clocks, and its speedups from them."""
    scored = {score.shape: score.t_scored for score in cell.shapes} if cell.scores is not None else {}
    for time in baseline.times:
        larger = max(time.t_event, time.t_sealed or 0.0)
        if not _near(time.seconds, time.t_event if time.clock == "weak" else larger):
            return False
        submission = scored.get(time.shape)
        if (time.speedup is None) != (submission is None):
            return False
        if time.speedup is not None and submission and not _near(time.speedup * submission, time.seconds):
            return False
    if baseline.speedup is None:
        return True
    speedups = [time.speedup for time in baseline.times if time.speedup is not None]
    return {time.shape for time in baseline.times} == set(scored) and _near(baseline.speedup, _geometric(speedups))


def _wrong(cell: Cell, score: ShapeScore) -> Iterator[str]:
    """Which fields of a shape's score are not what they should be."""
    timings = _timings(cell, score.shape)
    if timings is None:
        yield "score"
        return
    sealed = [median(batch.per_call for batch in timing.counted) for timing in timings if timing.sealed]
    if (score.t_sealed is None) != (not sealed) or (sealed and not _near(score.t_sealed or 0.0, median(sealed))):
        yield "sealed time"
    if not score.vetoed and not _near(score.t_event, median(middle(timing.claimed, timing.trim) for timing in timings)):
        yield "claimed time"
    if not _near(score.t_null, median(timing.null_s for timing in timings)):
        yield "time of an empty call"
    ungated = [median(timing.ungated) for timing in timings if timing.ungated]
    looked = len(ungated) == len(timings)
    if (score.t_ungated is not None) != looked or (looked and not _near(score.t_ungated or 0.0, median(ungated))):
        yield "time of a call without the gate"
    if score.samples != sum(len(timing.claimed) for timing in timings):
        yield "number of samples"
    alone, scored = alone_of(timings), max(score.t_event, score.t_sealed or 0.0)
    if (score.t_alone is None) != (alone is None) or (alone and not _near(score.t_alone or 0.0, alone.per_call)):
        yield "time of a sealed call alone"
    if alone is not None and denies(cell.target.device, alone, scored):
        scored = alone.per_call
    if not _near(score.t_scored, scored):
        yield "scored time"
    if not _near(score.roofline_fraction * score.t_scored, score.t_floor):
        yield "roofline fraction"
    if not _near(score.attainable_fraction * score.t_scored, score.t_floor + score.t_null):
        yield "attainable fraction"


def _timings(cell: Cell, shape: str) -> Sequence[ShapeTiming] | None:
    """The times of a shape in each trial; None where one lacks them or was not right."""
    found = [result for trial in cell.trials for result in trial.shapes if result.shape == shape]
    timings = [result.timing for result in found if result.timing is not None and result.status == "right"]
    whole = len(timings) == len(cell.trials) > 0 and all(timing.claimed for timing in timings)
    batches = (batch.rounds for timing in timings for batch in timing.sealed)
    return timings if whole and all(rounds > 0 for rounds in batches) else None


def _geometric(values: Sequence[float]) -> float:
    """The geometric mean; NaN where a stranger's bundle has a number that none can be of."""
    return geometric_mean(values) if all(0 < value < math.inf for value in values) else math.nan


def _near(value: float, other: float) -> bool:
    return math.isclose(value, other, rel_tol=NEAR, abs_tol=1e-15)
