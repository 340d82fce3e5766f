# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""Scores from two clocks: which times count, what they mean as a share of the hardware, and when they mean nothing.

A trial's event time is the middle of its claimed samples (on a GPU the mean of those between the first and the last
tenth, on a CPU the median), its sealed time the median of those batches on the judge's clock that count: the two
quickest on a GPU, else all. Over trials both are medians of those: a trial is one process, with one placement in memory
and one set of compiled code, so it is the trial that repeats, and one disturbed trial must not move the result. The
time that is scored is the larger of the two: the claim can only be believed upwards of the proof. Calls of a batch may
share work; where a sealed call alone took longer than both by more than `denies` allows, its time is scored.

A sample that is faster than the hardware can be is vetoed. On a GPU that is one under 0.95 of the floor at datasheet
peaks or under 0.9 of an empty call. A CPU's peaks are measured: a copy that misses the caches, and torch's own product.
A reduced shape may lie in a cache with ten times that bandwidth, and a better product than torch's may exist. So there
only a tenth of the memory floor and half of the compute floor veto, and half of an empty call, because the processor is
shared with other processes when that is measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grader.record import spread
from grader.record.cell import (
    Scores,
    SealedBatch,
    ShapeResult,
    ShapeScore,
    ShapeTiming,
    TrialResult,
    alone_of,
    denies,
    geometric_mean,
)
from grader.record.spread import Wanted
from grader.record.words import seconds
from grader.score import published
from grader.score.standard import Chosen, TargetError, hardware_file
from kbh_lint.authors.floors import COMPUTE, MEMORY, Floor, floor
from kbh_lint.problems import Problem, Shape

__all__ = [
    "NO_SCORES", "check_2026_04", "least_time", "noise_limit", "score_2026_04", "shape_scores", "suspicion", "total",
    "unstable", "wanted",
]  # fmt: skip

DATASHEET_SHARE = 0.95
DATASHEET_NULL_SHARE = 0.9
MEASURED_NULL_SHARE = 0.5
MEASURED_COMPUTE_SHARE = 0.5
MEASURED_MEMORY_SHARE = 0.1
MOST_VETOED = 0.1  # the share of a shape's samples in one trial beyond which the cell is suspect
LEAST_SHARE = 0.5  # of the claim, that a sealed batch must show where it might be longer than the claim
# How much longer a call alone may take by the judge's clock than is scored: a share, and seconds beyond that. On a GPU
# the wall holds the launches on the host, which the scored time leaves out: up to 0.6 ms of honest code on an H200.
LATENCY_SHARE = {"cuda": 1.1, "cpu": 1.2}
LATENCY_S = {"cuda": 2e-3, "cpu": 3e-3}
# How far a proof may be above the claim. On a GPU a part of what calls in a row take longer is off the proof already.
AGREE = {"cuda": 1.05, "cpu": 1.1}
LESS = 1.2  # how far a claim may be above a proof before that is told: a proof is what calls took at least
FULL = 1.1  # how far a batch with everything in it may be above the claim and bear it out
# What repeats of a grading may vary by, see `noise_limit`: of shapes that take less than SHORT_S, or whose floor is a
# smaller share of their time than LATENCY_BOUND; of those where memory or compute binds; of all on a CPU.
SHORT_S = 20e-6
LATENCY_BOUND = 0.02
NOISE_SHORT, NOISE_MEMORY, NOISE_COMPUTE, NOISE_CPU = 0.03, 0.005, 0.015, 0.15
ERROR_SHARE = 0.4  # of that, which the samples of one grading alone may explain
NO_SCORES = Scores(None, None, None)


@dataclass(frozen=True, slots=True)
class _Measured:
    """One trial at one shape: `kept` are the samples that were not vetoed."""

    timing: ShapeTiming
    kept: tuple[float, ...]
    event: float
    sealed: float | None

    @property
    def latency(self) -> float | None:
        """Seconds of single calls on the judge's clock, less an empty one's: what a call takes alone, at most."""
        if not self.timing.walls or not self.timing.null_wall:
            return None
        return statistics.median(self.timing.walls) - self.timing.null_wall

    @property
    def scored(self) -> float:
        """The time that scores are computed from: the larger of both clocks."""
        return max(self.event, self.sealed or 0.0)


def shape_scores(problem: Problem, chosen: Chosen, trials: Sequence[TrialResult]) -> tuple[ShapeScore, ...]:
    """The scores of the shapes that were right and timed in every trial; the others have none.

    Raises FormulaError for a fault of problem.yaml.
    """
    found = (_shape_score(problem, chosen, shape, trials) for shape in _shapes(problem, chosen))
    return tuple(score for score in found if score is not None)


def suspicion(problem: Problem, chosen: Chosen, trials: Sequence[TrialResult]) -> str:
    """Why times of these trials cannot be true, in one sentence; empty when nothing says so.

    Suspect are claimed samples, more than a tenth of a shape's in one trial, and the sealed batches that count, when
    they are faster than the hardware can be. For a batch the whole time counts: what our own part of it took is
    known only from other batches, and a busy machine must not accuse anybody.
    """
    for shape in _shapes(problem, chosen):
        bound = _floor(problem, chosen, shape)
        for trial in trials:
            timing = _result(trial, shape).timing
            if timing is None:
                continue
            where = f"at {shape.label} in trial {trial.index}"
            least = least_time(chosen, bound, timing.null_s)
            vetoed = sum(not _stands(sample, least) for sample in timing.claimed)
            if vetoed > MOST_VETOED * len(timing.claimed):
                return (
                    f"{vetoed} of {len(timing.claimed)} timed calls {where} are claimed to take less than "
                    f"{seconds(least)}, which is faster than this target can be"
                )
            least, most = least_time(chosen, bound, 0.0), _at_most(timing)
            if most is not None and not _stands(most, least):
                return (
                    f"the sealed batches {where} took {seconds(most)} a call with all that is ours in them, less than "
                    f"the {seconds(least)} that this target needs"
                )
    return ""


def total(problem: Problem, chosen: Chosen, shapes: Sequence[ShapeScore]) -> Scores:
    """Geometric means over the problem's shapes; all None unless each of them, and no other, has a score."""
    if sorted(score.shape for score in shapes) != sorted(shape.label for shape in _shapes(problem, chosen)):
        return NO_SCORES
    return Scores(
        peak_fraction=geometric_mean([score.peak_fraction for score in shapes]),
        roofline_fraction=geometric_mean([score.roofline_fraction for score in shapes]),
        attainable_fraction=geometric_mean([score.attainable_fraction for score in shapes]),
    )


def unstable(problem: Problem, chosen: Chosen, shapes: Sequence[ShapeScore]) -> bool:
    """Whether repeats of this grading would spread more than a shape's class allows, as far as its spread tells."""
    return any(score.spread > noise_limit(problem, chosen, score) for score in shapes)


def noise_limit(problem: Problem, chosen: Chosen, score: ShapeScore) -> float:
    """The coefficient of variation that a shape's class allows between gradings.

    GPU: 0.5 % where memory binds, 1.5 % where compute does, 3 % under 20 us and where latency binds: where neither roof
    is a fiftieth of the time. CPU: 15 %.
    """
    if chosen.record.device == "cpu":
        return NOISE_CPU
    bound = _floor(problem, chosen, next(shape for shape in _shapes(problem, chosen) if shape.label == score.shape))
    if score.t_scored < SHORT_S or bound.t_floor < LATENCY_BOUND * score.t_scored:
        return NOISE_SHORT
    return NOISE_MEMORY if bound.binding == MEMORY else NOISE_COMPUTE


def wanted(problem: Problem, chosen: Chosen) -> dict[str, Wanted]:
    """How well the middle of a shape's samples should be known for its times to repeat as `noise_limit` says.

    Only of shapes of a GPU whose class allows little, where memory binds: a few more samples bring them below it.
    """
    if chosen.record.device == "cpu":
        return {}
    floors = {shape.label: _floor(problem, chosen, shape) for shape in _shapes(problem, chosen)}
    return {
        label: Wanted(ERROR_SHARE * NOISE_MEMORY, SHORT_S, bound.t_floor / LATENCY_BOUND)
        for label, bound in floors.items()
        if bound.binding == MEMORY
    }


def least_time(chosen: Chosen, bound: Floor, null_s: float) -> float:
    """Seconds below which a time is vetoed: a share of the floor, and of an empty call."""
    if chosen.record.peaks == "datasheet":
        return max(DATASHEET_SHARE * bound.t_floor, DATASHEET_NULL_SHARE * null_s)
    hardware = max(MEASURED_COMPUTE_SHARE * bound.compute_s, MEASURED_MEMORY_SHARE * bound.memory_s)
    return max(hardware, MEASURED_NULL_SHARE * null_s)


def check_2026_04(problem: Problem, chosen: Chosen) -> published.PublishedProblem:
    """How the protocol of 2026-04 scores a problem here. Raises TargetError when it does not, and DataError."""
    protocol = _published(problem)
    if chosen.target.id != protocol.target.id:
        raise TargetError(f"the protocol 2026-04 is for {protocol.target.id} only; this is {chosen.target.id}")
    if problem.id not in protocol.problems:
        raise TargetError(f"{problem.id} was not scored under the protocol 2026-04")
    return protocol.problems[problem.id]


def score_2026_04(problem: Problem, chosen: Chosen, shapes: Sequence[ShapeScore]) -> Scores:
    """The published score: `t_event` by the published formulas and peaks; the other scores are None.

    The times must have been taken by that protocol. Raises TargetError on another target than its own.
    """
    work, target = check_2026_04(problem, chosen), _published(problem).target
    if total(problem, chosen, shapes) == NO_SCORES:
        return NO_SCORES
    times: Mapping[str, float] = {score.shape: score.t_event for score in shapes}
    share = geometric_mean([work.achieved(shape, times[shape.label], target) for shape in problem.shapes])
    return Scores(None, None, None, peak_fraction_2026_04=share)


def _shape_score(problem: Problem, chosen: Chosen, shape: Shape, trials: Sequence[TrialResult]) -> ShapeScore | None:
    results = [_result(trial, shape) for trial in trials]
    if not results or any(result.status != "right" for result in results):
        return None
    bound = _floor(problem, chosen, shape)
    found = [_measured(chosen, bound, result.timing) for result in results]
    measured = [one for one in found if one is not None]
    if len(measured) < len(found):
        return None
    event = statistics.median(one.event for one in measured)
    proved = [one.sealed for one in measured if one.sealed is not None]
    sealed = statistics.median(proved) if proved else None
    alone = alone_of([one.timing for one in measured])
    doubts = _doubts(chosen, measured, event, sealed, alone)
    null = statistics.median(one.timing.null_s for one in measured)
    scored = max(event, sealed or 0.0)
    if alone is not None and denies(chosen.record.device, alone, scored):
        scored = alone.per_call
    samples = sum(len(one.timing.claimed) for one in measured)
    vetoed = samples - sum(len(one.kept) for one in measured)
    error = _spread(measured, (sealed or 0.0) > event)
    return ShapeScore(
        shape=shape.label,
        t_scored=scored,
        t_event=event,
        t_sealed=sealed,
        t_floor=bound.t_floor,
        t_null=null,
        clock="weak" if doubts else "proved",
        vetoed=vetoed,
        samples=samples,
        spread=error or 0.0,
        peak_fraction=_declared(shape, bound) / scored,
        roofline_fraction=bound.t_floor / scored,
        attainable_fraction=(bound.t_floor + null) / scored,
        notes=(*doubts, *_notes(chosen, measured, event, sealed, vetoed, samples, error)),
        t_ungated=_ungated(measured),
        t_alone=None if alone is None else alone.per_call,
    )


def _measured(chosen: Chosen, bound: Floor, timing: ShapeTiming | None) -> _Measured | None:
    """One trial's times; None where it was not timed, or no sample of it stands."""
    if timing is None:
        return None
    least = least_time(chosen, bound, timing.null_s)
    kept = tuple(sample for sample in timing.claimed if _stands(sample, least))
    return _Measured(timing, kept, spread.middle(kept, timing.trim), _sealed(timing)) if kept else None


def _ungated(measured: Sequence[_Measured]) -> float | None:
    """Seconds of a call for which the device waits; None where a trial did not look."""
    if not all(one.timing.ungated for one in measured):
        return None
    return statistics.median(statistics.median(one.timing.ungated) for one in measured)


def _stands(taken: float, least: float) -> bool:
    """Whether a time can be true; NaN and infinity cannot."""
    return least <= taken < math.inf


def _sealed(timing: ShapeTiming) -> float | None:
    return statistics.median(batch.per_call for batch in timing.counted) if timing.sealed else None


def _at_most(timing: ShapeTiming) -> float | None:
    """Seconds that a call of the sealed batches took at most, our own overhead included."""
    return statistics.median(batch.seconds / batch.rounds for batch in timing.counted) if timing.sealed else None


def _resolves(one: _Measured) -> bool:
    """Whether the sealed batches bear out the claim.

    Without our overhead they fall to less than half of it where the overhead was taken for too long, on a busy machine:
    then the calls' true time is known only to be less than a batch with everything in it.
    """
    most = _at_most(one.timing)
    assert one.sealed is not None and most is not None
    return one.sealed >= LEAST_SHARE * one.event or most <= FULL * one.event


def _declared(shape: Shape, bound: Floor) -> float:
    """The seconds that a shape takes at the peak of its declared regime; `mixed` is what binds on this target."""
    return {COMPUTE: bound.compute_s, MEMORY: bound.memory_s}.get(shape.regime, bound.t_floor)


def _spread(measured: Sequence[_Measured], sealed: bool) -> float | None:
    """Standard error of the time that is scored, as a share of it; `sealed` says that batches are."""
    within = [
        spread.of_batches([batch.per_call for batch in one.timing.repeats])
        if sealed
        else spread.of_samples(one.kept, one.timing.trim)
        for one in measured
    ]
    return spread.of_trials([one.scored for one in measured], within)


def _doubts(
    chosen: Chosen, measured: Sequence[_Measured], event: float, sealed: float | None,
    alone: SealedBatch | None,
) -> list[str]:  # fmt: skip
    """Why the claimed time is not proved: a sentence each.

    A batch proves how many calls fit into a time. Work that is put off to a batch's end, or done for several calls at
    once, shows in single calls: on the judge's clock they take longer than the time that is scored.
    """
    if sealed is None:
        return ["no sealed batch: the claimed time is not proved"]
    doubts = []
    device = chosen.record.device
    if sealed > AGREE[device] * event:
        doubts.append(f"a call took {sealed / event - 1:.1%} more in the sealed batch than was claimed")
    elif not all(_resolves(one) for one in measured if one.sealed is not None):
        doubts.append("the sealed batches are too short beside our own overhead to prove the claimed time")
    scored = max(event, sealed)
    if alone is not None and denies(device, alone, scored):
        doubts.append(f"a sealed call took {seconds(alone.per_call)} alone, and {seconds(scored)} by the other clocks")
    latencies = [one.latency for one in measured if one.latency is not None]
    if latencies and statistics.median(latencies) > LATENCY_SHARE[device] * scored + LATENCY_S[device]:
        waited = statistics.median(latencies)
        doubts.append(f"a call alone took {seconds(waited)} on the judge's clock, but {seconds(scored)} is scored")
    return doubts


def _notes(
    chosen: Chosen, measured: Sequence[_Measured], event: float, sealed: float | None, vetoed: int, samples: int,
    error: float | None,
) -> tuple[str, ...]:  # fmt: skip
    notes = []
    launch = statistics.median(one.timing.null_s for one in measured)  # in every claim, and in a batch once
    if sealed is not None and event - launch > LESS * sealed and chosen.record.device == "cuda":
        # On a CPU the batch finds warm caches, so there it says nothing.
        notes.append("a call took less in the sealed batch than was claimed, by more than a sixth")
    if vetoed:
        notes.append(f"{vetoed} of {samples} samples are faster than this target can be and do not count")
    if any(one.timing.host_sync for one in measured):
        notes.append("forward waits for the device, so its time on the host counts")
    if error is None:
        notes.append("too few samples: no spread")
    return (*notes, *dict.fromkeys(note for one in measured for note in one.timing.notes))


def _shapes(problem: Problem, chosen: Chosen) -> tuple[Shape, ...]:
    return problem.shapes if chosen.record.scale == "full" else problem.reduced


def _floor(problem: Problem, chosen: Chosen, shape: Shape) -> Floor:
    found = floor(problem, shape, chosen.target)
    if found is None:
        raise TargetError(f"{chosen.target.id} has no peak for the precision {problem.precision} of {problem.id}")
    return found


def _result(trial: TrialResult, shape: Shape) -> ShapeResult:
    """A trial's result at a shape; one that it did not reach was not run."""
    none = ShapeResult(shape.label, "not-run", "", 0, 0, (), None)
    return next((result for result in trial.shapes if result.shape == shape.label), none)


def _published(problem: Problem) -> published.Published:
    return published.read(hardware_file(problem).parent)
