"""What grading yields: a cell is a submission on a problem and a target, with its verdict, and only then its scores.

Times are in seconds. Each field says whether a number is proof (bytes or clocks of the judge) or a claim of the
submission's own process; docs/grading.md explains which bounds which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any, Literal

from grader.record.sandboxes import TRAITS, SandboxKind, Traits
from kbh_lint.findings import State, Verdict

__all__ = [
    "LATER", "Baseline", "BaselineName", "BaselineTime", "CaseOutcome", "Cell", "FindingRecord", "Outcome",
    "PromiseRecord", "SandboxRecord", "Scores", "SealedBatch", "ShapeResult", "ShapeScore", "ShapeTiming",
    "TargetRecord", "TrialResult", "VerdictRecord", "alone_of", "denies", "geometric_mean", "least_alone",
]  # fmt: skip

Outcome = Literal["accepted", "flagged", "withheld", "suspect", "wrong", "refused"]
ShapeStatus = Literal["right", "wrong", "crashed", "timeout", "not-run"]
BaselineName = Literal["eager", "compile", "library"]
SCORED: frozenset[Outcome] = frozenset({"accepted", "flagged"})
FORMAT = 1
# How much longer a sealed call alone may take than is scored, for reasons of ours: a share, and beyond that as many
# seconds, or a part of what an empty one costs where that is more. On an H100 an empty one costs 0.45 to 0.7 ms, and
# the first of honest submissions took up to 0.22 ms longer than is scored (10 shapes); of several the quickest counts,
# or the middle one beside the middle of empty ones: on some machines most calls, empty or not, take 0.2 ms longer than
# the quickest do.
ALONE_SHARE = {"cuda": 1.15, "cpu": 1.2}
ALONE_S = {"cuda": 150e-6, "cpu": 150e-6}
ALONE_OVERHEAD = {"cuda": 0.25, "cpu": 0.5}
LEAST_MIDDLE = 7  # sealed calls alone that have a middle
UNDISTURBED = 3  # of the sealed batches of a GPU, told by being the quickest
LATER: Mapping[str, Any] = {"later": True}  # marks a field that older bundles lack; it has its default then


@dataclass(frozen=True, slots=True)
class FindingRecord:
    """A finding of the linter or of the run: `layer` says which looked."""

    rule: str
    leak_class: str
    verdict: Verdict
    layer: Literal["source", "ptx", "sass", "counters", "run"]
    message: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class PromiseRecord:
    """A promise after all layers that looked. `missing`: layers it declares which this grading did not have."""

    id: str
    state: State
    accepts: tuple[State, ...]
    layers: Mapping[str, State]
    missing: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class VerdictRecord:
    """What the number measures. `accepted` and `why` answer whether --strict takes it."""

    verdict: Verdict
    accepted: bool
    why: str
    promises: tuple[PromiseRecord, ...]
    findings: tuple[FindingRecord, ...]
    contract: str | None
    linter: str
    report: str = ""  # SHA-256 of the linter's whole JSON report in the bundle


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """What it ran on. `peaks` says whether scores stand on a datasheet or on what was measured on this machine."""

    id: str
    product: str
    device: Literal["cuda", "cpu"]
    peaks: Literal["datasheet", "measured"]
    peak_tflops: float
    dram_gbps: float
    scale: Literal["full", "reduced"]
    label: str = ""  # for people, when the number is not what it seems: "CPU, Triton interpreted, reduced shapes"


@dataclass(frozen=True, slots=True)
class SandboxRecord:
    """What held the submission's process: `kind` and what it lacked."""

    kind: SandboxKind
    uid: int
    network: bool
    notes: tuple[str, ...] = ()

    @property
    def traits(self) -> Traits:
        """What a sandbox of this kind does."""
        return TRAITS[self.kind]


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """One compared call. `error` is the smallest tolerance that would have passed; None where none was measured.

    `digest` is the SHA-256 of the outputs' bytes, kept for a few calls that the evidence pass may ask for again.
    Where the whole output would have been too dear, `rows` rows of its `of_rows` were compared; 0 says all. `model` is
    which of the models that take turns was called.
    """

    case: str
    ok: bool
    error: float | None
    tolerance: float | None
    message: str = ""
    digest: str = ""
    rows: int = field(default=0, metadata=LATER)
    of_rows: int = field(default=0, metadata=LATER)
    model: int = field(default=0, metadata=LATER)


@dataclass(frozen=True, slots=True)
class SealedBatch:
    """One batch on the judge's clock: `rounds` calls in `seconds`; `overhead` of that single calls need not have."""

    rounds: int
    seconds: float
    overhead: float

    @property
    def per_call(self) -> float:
        """The least seconds that each call of the batch took: without the judge's overhead, never below zero."""
        return max(self.seconds - self.overhead, 0.0) / self.rounds


@dataclass(frozen=True, slots=True)
class ShapeTiming:
    """The two clocks of one shape.

    `claimed`: the candidate's event times, one a timed call. `walls`: the judge's clock from before the call's inputs
    were written until its answer. `null_s` and `null_wall`: an empty call by either clock, measured before the import.
    `health`: the GPU's clocks, power, temperature and guests before and after the batches. `ungated`: event times of a
    few more calls that found the device idle, so that the host's launches count; a claim, and never scored. Of `sealed`
    so many of the `quickest` count, because what disturbs a batch only makes it longer; all where it is 0. `alone` are
    batches of one call: what calls of a batch share, they cannot. `null_alone` is the middle of what empty ones took;
    0 where it is not known. `trim`: the share of `claimed` that is left out at each end before their mean is taken;
    0.5 stands for their median. `host_sync`: forward waits for the device.
    """

    claimed: tuple[float, ...]
    walls: tuple[float, ...]
    sealed: tuple[SealedBatch, ...]
    null_s: float
    null_wall: float = 0.0
    host_sync: bool = False
    notes: tuple[str, ...] = ()
    health: tuple[Mapping[str, float], ...] = ()
    ungated: tuple[float, ...] = field(default=(), metadata=LATER)
    trim: float = field(default=0.5, metadata=LATER)
    quickest: int = field(default=0, metadata=LATER)
    alone: tuple[SealedBatch, ...] = field(default=(), metadata=LATER)
    null_alone: float = field(default=0.0, metadata=LATER)

    @property
    def least_alone(self) -> SealedBatch | None:
        """See `least_alone`."""
        return least_alone(self.alone, self.null_alone)

    @property
    def counted(self) -> tuple[SealedBatch, ...]:
        """The sealed batches that count."""
        if not self.quickest:
            return self.sealed
        return self._sorted[: max(self.quickest, 1)]

    @property
    def repeats(self) -> tuple[SealedBatch, ...]:
        """The sealed batches that tell how far one that counts may be off: all, or the few least disturbed."""
        return self._sorted[: max(self.quickest, UNDISTURBED)] if self.quickest else self.sealed

    @property
    def _sorted(self) -> tuple[SealedBatch, ...]:
        return tuple(sorted(self.sealed, key=lambda batch: batch.per_call))


@dataclass(frozen=True, slots=True)
class ShapeResult:
    """One shape of one trial. `calls` were answered, and the outputs of `compared` of them held against the oracle.

    `copied`: all of its models but one may have been copies of that, which was slow to make.
    """

    shape: str
    status: ShapeStatus
    message: str
    calls: int
    compared: int
    cases: tuple[CaseOutcome, ...]
    timing: ShapeTiming | None
    copied: bool = field(default=False, metadata=LATER)


@dataclass(frozen=True, slots=True)
class TrialResult:
    """One process of the submission from start to end. `master` is the key in hex, revealed now that it is over.

    `spent` are seconds of its stages: the process's start, empty calls, the import, single calls, batches.
    """

    index: int
    commitment: str
    master: str
    status: Literal["right", "wrong", "refused"]
    message: str
    shapes: tuple[ShapeResult, ...]
    sandbox: SandboxRecord
    seconds: float
    log: str = ""  # SHA-256 of what it printed (redacted) in the bundle
    detail: str = ""
    spent: Mapping[str, float] = field(default_factory=dict, metadata=LATER)


@dataclass(frozen=True, slots=True)
class ShapeScore:
    """One shape over all trials. `clock` is weak where the claim and the proof differ by more than is allowed.

    `t_ungated` is a call on an idle device, the host's launches included; None where nobody looked. `t_alone` is what
    a sealed call alone took at least, which is scored where it denies both other times.
    """

    shape: str
    t_scored: float
    t_event: float
    t_sealed: float | None
    t_floor: float
    t_null: float
    clock: Literal["proved", "weak"]
    vetoed: int
    samples: int
    spread: float  # standard error of t_scored as a share of it: what repeats of the grading would vary by
    peak_fraction: float
    roofline_fraction: float
    attainable_fraction: float
    notes: tuple[str, ...] = ()
    t_ungated: float | None = field(default=None, metadata=LATER)
    t_alone: float | None = field(default=None, metadata=LATER)

    @property
    def launch(self) -> float | None:
        """Seconds that the host's launches add to a claimed time when the device waits for them."""
        return None if self.t_ungated is None else max(self.t_ungated - self.t_event, 0.0)


@dataclass(frozen=True, slots=True)
class BaselineTime:
    """A baseline's time at one shape, by the same clocks as a submission's. `speedup`: the baseline's time in units of
    the submission's.

    `seconds` is what is compared: computed as a submission's `t_scored`, except that where the clock is weak it is the
    event time alone. A baseline is code of ours and is trusted; a sealed batch of it that cannot be captured as a CUDA
    graph would count the host's launches as well.
    """

    shape: str
    seconds: float
    t_event: float
    t_sealed: float | None
    clock: Literal["proved", "weak"]
    speedup: float | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """A module of ours on the same shapes, through the same judge. It has times and no score.

    `what` says what it calls. `times` has the shapes that were right and timed. `speedup` is the geometric mean over
    all shapes of the problem; None where one lacks a time, or the submission has no score.
    """

    name: BaselineName
    what: str
    status: Literal["right", "wrong", "refused"]
    message: str
    times: tuple[BaselineTime, ...] = ()
    speedup: float | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """Geometric means over the shapes; `peak_fraction_2026_04` only under that protocol."""

    peak_fraction: float | None
    roofline_fraction: float | None
    attainable_fraction: float | None
    peak_fraction_2026_04: float | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A graded submission. Raises ValueError for a score without an outcome that allows one."""

    problem: str
    submission: str  # SHA-256 of the file as linted and run
    file: str
    target: TargetRecord
    strict: bool
    protocol: Literal["2026-11", "2026-04"]
    outcome: Outcome
    reason: str
    verdict: VerdictRecord
    trials: tuple[TrialResult, ...] = ()
    shapes: tuple[ShapeScore, ...] = ()
    scores: Scores | None = None
    unstable: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT
    baselines: tuple[Baseline, ...] = field(default=(), metadata=LATER)

    def __post_init__(self) -> None:
        if self.scores is not None and self.outcome not in SCORED:
            raise ValueError(f"a cell that is {self.outcome} has no score")
        if self.shapes and self.outcome not in (*SCORED, "wrong"):
            raise ValueError(f"a cell that is {self.outcome} shows no fraction of any shape")
        if self.outcome == "accepted" and not self.verdict.accepted:
            raise ValueError("a cell is accepted only with a verdict that is")
        speedups = [one.speedup for one in self.baselines]
        speedups += [time.speedup for one in self.baselines for time in one.times]
        if self.outcome not in SCORED and any(speedup is not None for speedup in speedups):
            raise ValueError(f"a cell that is {self.outcome} is not compared with a baseline")

    @property
    def exit_code(self) -> int:
        """0 accepted; 1 graded, but flagged, withheld, suspect or wrong; 2 could not be graded."""
        return {"accepted": 0, "refused": 2}.get(self.outcome, 1)


def denies(device: str, alone: SealedBatch | None, seconds: float) -> bool:
    """Whether the sealed call `alone` shows that a call on `device` ("cuda" or "cpu") takes longer than `seconds`."""
    if alone is None:
        return False
    return alone.per_call > ALONE_SHARE[device] * seconds + max(
        ALONE_S[device], ALONE_OVERHEAD[device] * alone.overhead
    )


def least_alone(calls: Sequence[SealedBatch], null_alone: float) -> SealedBatch | None:
    """The least time that a sealed call alone can have taken: the quickest call, or the middle one beside `null_alone`,
    the middle empty call, where that is less. None without calls.

    Whatever disturbs a call makes it longer, so the quickest tells most, beside the quickest empty one. Where hardly
    any is undisturbed, the only undisturbed one may be among the empty calls.
    """
    found = list(calls)
    if null_alone and len(found) >= LEAST_MIDDLE:
        found.append(SealedBatch(1, median(one.seconds for one in found), null_alone))
    return min(found, key=lambda one: one.per_call, default=None)


def alone_of(timings: Sequence[ShapeTiming]) -> SealedBatch | None:
    """The sealed call alone that stands for a shape over its trials: the middle one, the quicker of two.

    None where a trial has none.
    """
    found = [timing.least_alone for timing in timings]
    known = sorted((batch for batch in found if batch is not None), key=lambda batch: batch.per_call)
    return known[(len(known) - 1) // 2] if known and len(known) == len(found) else None


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive numbers; NaN of none."""
    return math.exp(fmean(map(math.log, values))) if values else math.nan
