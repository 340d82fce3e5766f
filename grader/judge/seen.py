"""What a trial has seen of a shape so far, and what an empty call costs there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from grader.record.cell import CaseOutcome, SealedBatch, ShapeResult, ShapeStatus, ShapeTiming
from grader.record.words import rows_of

__all__ = ["Null", "Sample", "Seen", "compared_calls", "prepared"]

PREPARING = 4  # calls after the first one on an address in which a model may make a graph for it
PREPARED = 1.5  # times as long as those after them they take then
LEAST_BEFORE, LEAST_AFTER = 3, 20  # samples by which that is told
COLD = 0.5  # the share of a read that comes from memory after a flush, below which it is worth a note


@dataclass(frozen=True, slots=True)
class Null:
    """What an empty model costs: a call by the claimed and by the judge's clock, and what of a batch is ours.

    That is `batch`, and for each of its calls `mapping` of its inputs and a `copy` of its outputs.

    `canary` is the share of a small read that comes from memory after a flush; 0 where nobody looked. `earlier`: it was
    measured in an earlier process. `error` is by how much one batch may take longer than another
    for reasons of ours. `in_a_row` is the share that calls and copies one after the other may take longer than alone:
    they write back what the one before left in the cache, and a GPU that rests between calls runs faster. `alone` is
    all that a sealed call alone costs, `alone_error` by how much that varies, and `alone_middle` the middle of several.
    """

    seconds: float
    wall: float
    batch: float
    mapping: float
    copy: float
    canary: float
    earlier: bool = False
    error: float = 0.0
    in_a_row: float = 0.0
    alone: float = 0.0
    alone_error: float = 0.0
    alone_middle: float = 0.0

    def overhead(self, rounds: int, wall: float) -> float:
        """The seconds that the judge's own part may take of a batch of `rounds` calls that lasted `wall` seconds; the
        calls took the rest for certain.
        """
        if rounds == 1:
            return self.alone + self.alone_error
        before = self.batch + rounds * self.mapping + self.error
        return before + rounds * self.copy + self.in_a_row * max(wall - before, 0.0)


@dataclass(frozen=True, slots=True)
class Sample:
    """A timed call: seconds by the claimed and by the judge's clock. `visit` is how often the process had called on its
    place of memory before; None on a device on which nothing is made for an address.
    """

    seconds: float
    wall: float = 0.0
    visit: int | None = None


def prepared(samples: Sequence[Sample]) -> int:
    """How many calls on one address a model needs before it has built what it keeps for that address, such as a graph;
    these calls are no samples.

    The first call is never a sample where there are others, since a graph may be made by work on another stream, which
    events do not see. Some models build in the third or fourth call: those calls then take longer than the later ones.
    """
    visits = [one.visit for one in samples if one.visit is not None]
    found = int(any(visits))
    for visit in range(1, PREPARING + 1):
        before = [one.seconds for one in samples if one.visit == visit]
        after = [one.seconds for one in samples if one.visit is not None and one.visit > visit]
        if len(before) < LEAST_BEFORE or len(after) < LEAST_AFTER:
            continue
        if median(before) > PREPARED * median(after):
            found = visit + 1
    return found


@dataclass
class Seen:
    """What is known of one shape so far."""

    status: ShapeStatus = "not-run"
    message: str = ""
    calls: int = 0
    cases: list[CaseOutcome] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    ungated: list[float] = field(default_factory=list)
    sealed: list[SealedBatch] = field(default_factory=list)
    alone: list[SealedBatch] = field(default_factory=list)
    waited: bool = False
    eager: bool = False
    copied: bool = False  # whether its models may be copies of one that is slow to make
    health: list[Mapping[str, float]] = field(default_factory=list)

    @property
    def claimed(self) -> list[float]:
        """Seconds of the timed calls that count, by the claimed clock."""
        return [one.seconds for one in self._counted()]

    def _counted(self) -> list[Sample]:
        least = prepared(self.samples)
        return [one for one in self.samples if one.visit is None or one.visit >= least]

    def wrong_case(self, case: str, message: str) -> None:
        """Notes a call that is wrong without a comparison."""
        self.fault(message)
        self.cases.append(CaseOutcome(case, False, None, None, message))

    def fault(self, message: str, status: ShapeStatus = "wrong") -> None:
        """Notes the first thing that is wrong."""
        if self.status not in ("wrong", "crashed", "timeout"):
            self.status, self.message = status, message

    def result(self, shape: str, null: Null | None, trim: float, quickest: int = 0) -> ShapeResult:
        """The record of all that was seen of `shape`; it has times where calls were timed and `null` is the cost of
        empty ones.
        """
        timing = None
        counted = self._counted()
        if null is not None and counted:
            timing = ShapeTiming(
                tuple(one.seconds for one in counted), tuple(one.wall for one in counted), tuple(self.sealed),
                null.seconds, null.wall,
                self.waited,
                notes=self._notes(null), health=tuple(self.health), ungated=tuple(self.ungated), trim=trim,
                quickest=quickest, alone=tuple(self.alone), null_alone=null.alone_middle,
            )  # fmt: skip
        cases = tuple(self.cases)
        return ShapeResult(shape, self.status, self.message, self.calls, len(cases), cases, timing, self.copied)

    def _notes(self, null: Null) -> tuple[str, ...]:
        warm = 0 < null.canary < COLD
        notes = [f"after a flush only {null.canary:.2f} of a read comes from memory"] if warm else []
        least = prepared(self.samples)
        if least > 1:
            notes.append(f"it made something for an address in call {least} on it: calls up to that one are no samples")
        if self.eager and self.sealed:
            notes.append("the batches could not be captured and ran call by call")
        if null.earlier:
            notes.append("what an empty call costs was measured in an earlier process")
        return tuple(notes)


def compared_calls(shapes: Sequence[ShapeResult]) -> str:
    """How much was found right, in one sentence: calls, and where not the whole output was compared, rows."""
    said = f"{sum(shape.compared for shape in shapes)} compared calls are right"
    return f"{said}, {rows}" if (rows := rows_of(shapes)) else said
