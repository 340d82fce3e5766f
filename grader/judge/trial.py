"""The course of one trial: what the judge asks of a candidate, in which order, and what it makes of the answers."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from grader.deck.against import hold
from grader.deck.cases import Case, CaseSpec, materialise
from grader.deck.code import TORCH_DTYPES, Code, DeckError, ours
from grader.deck.digest import digest_of
from grader.deck.keys import derive
from grader.deck.oracles import Replayed
from grader.judge import plan as planning
from grader.judge.answers import Ended, expect, first_line
from grader.judge.batches import State, lone_calls, sealed_batches
from grader.judge.empty_calls import empty_calls, lesser, together
from grader.judge.plan import ShapePlan, TrialOptions
from grader.judge.resources import free_bytes
from grader.judge.seen import Null, Seen, compared_calls
from grader.judge.session import Session
from grader.judge.single_calls import first_calls, later_calls, replay, single_calls, ungated_calls
from grader.judge.ticking import BUILDING
from grader.record.cell import CaseOutcome, ShapeResult, TrialResult
from grader.record.spread import MEDIAN, Wanted, middle
from grader.sandbox.base import CheckError
from grader.sandbox.supervise import ChildGone
from grader.wire.channel import layout, size_of
from grader.wire.frames import Frame, Kind
from kbh_lint.problems import Binding, Problem, Shape

__all__ = ["NotReplayed", "Trial"]

MOST_GPU_MEMORY = 0.5  # the share that a submission may hold before the judge's want of it is its fault
WAITED_SECONDS = 0.1
WRONG = ("wrong", "crashed", "timeout")
Say = Callable[[str], None]
Step = Callable[[ShapePlan, Seen], None]


class NotReplayed(Exception):
    """The evidence pass shows nothing: its process failed, or gave other bits that are right; one sentence."""


class Trial:
    """One trial in progress."""

    def __init__(
        self, problem: Problem, code: Code, master: bytes, options: TrialOptions, device: str, session: Session,
        say: Say,
    ) -> None:  # fmt: skip
        self.problem, self.master, self.options = problem, master, options
        self._oracle = Replayed(code.oracle)
        self.code = replace(code, oracle=self._oracle)
        self.device, self.session, self.say = device, session, say
        self.contract = next(iter(problem.contracts.values()))
        self.states: dict[str, Seen] = {}
        self.nulls: dict[str, Null] = {}
        self.bindings: dict[str, Binding] = {}
        self.whole: dict[str, str] = {}  # the call of each shape that is compared whole in any case
        self.failure = self.refusal = self.detail = self.unsure = ""
        self.spent: dict[str, float] = {}  # seconds of each stage
        self.making: dict[str, float] = {}  # seconds that making one model took, by shape
        self._since = time.monotonic()
        self._lost: ChildGone | None = None  # a process that was to be up
        self.last = not (options.later and options.timing)  # whether no process comes after this one
        self.split: set[str] = set()  # shapes whose later samples are left to another process
        self.denied: set[str] = (
            set()
        )  # shapes where calls alone denied what is scored: another process makes some again

    # --- the course of a trial ---

    def up(self) -> None:
        """Waits, without the device, for a process that was started ahead. `started` raises the error of one that
        ended.
        """
        self.say("starting the submission's process")
        try:
            self.session.up()
        except ChildGone as gone:
            self._lost = gone
        self._spend("start")

    def run(
        self, plans: Sequence[ShapePlan], imported: Callable[[], None] = lambda: None,
        timed: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """Runs the trial: empty calls, the import, then shape after shape until nothing further can be asked.

        After the import `imported` is called, while nothing is timed that it could disturb, and `timed` before anything
        is.
        """
        self._waited()  # for the device, since the process is up
        for plan in plans:
            self.states[plan.shape.label] = Seen()
            drawn = random.Random(derive(self.master, "whole", plan.shape.label))
            self.whole[plan.shape.label] = drawn.choice(sorted(plan.compared))
        calibrate = [plan.shape for plan in plans] if self.options.timing else []
        self._course(plans, calibrate, (self._first, self._shape), imported, timed)

    @property
    def goes_on(self) -> bool:
        """Whether more samples are to be taken in another process: all was right so far, and some shape needs them."""
        right = not (self.failure or self.refusal) and all(seen.status == "right" for seen in self.states.values())
        return right and not self.last and bool(self.split | self.denied)

    def go_on(self, session: Session, plans: Sequence[ShapePlan]) -> None:
        """Times more calls, in a process of its own, of the shapes whose times are wanted to be known well, and has
        calls made alone again where those of the first process denied the others.

        On a GPU that process makes the same empty calls before the import as the first one.
        """
        self.session, self.last = session, True
        self._since = time.monotonic()
        alike = [plan.shape for plan in plans] if self.on_gpu and not session.imported else []
        self._course([plan for plan in plans if plan.shape.label in self.split | self.denied], alike, (self._later,))

    def _course(
        self, plans: Sequence[ShapePlan], calibrate: Sequence[Shape], steps: Sequence[Step],
        imported: Callable[[], None] = lambda: None, timed: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        current: Seen | None = None
        try:
            self.started(calibrate)
            imported()
            for number, each in enumerate(steps):
                if number:
                    self._quiet(timed)
                for plan in plans:
                    current = self.states[plan.shape.label]
                    each(plan, current)
                    if self.over(current):
                        return
                    current = None
        except Ended as end:
            self._ended(end, current)
        except ChildGone as gone:
            self._ended(Ended("timeout" if gone.late else "crashed", str(gone), gone.detail), current)
        except (CheckError, DeckError, torch.OutOfMemoryError):
            taken = self._memory_taken()
            if current is None or taken < MOST_GPU_MEMORY:
                raise
            self._ended(Ended("crashed", f"it held {taken:.0%} of the GPU's memory, and too little was left"), current)

    def _quiet(self, timed: Callable[[], None]) -> None:
        """What is timed from here on is timed alone."""
        timed()
        self._oracle.quiet = True
        self._waited()

    def _waited(self) -> None:
        if time.monotonic() - self._since >= WAITED_SECONDS:
            self._spend("waiting")

    def replayed(self, shapes: Sequence[Shape], trial: TrialResult) -> list[str]:
        """Asks this process again for results of `trial`; a sentence for each difference. Raises NotReplayed."""
        seen = {result.shape: [case for case in result.cases if case.digest] for result in trial.shapes}
        copied = {result.shape for result in trial.shapes if result.copied}
        found = []
        try:
            self.started([])
            for shape in shapes:
                if not seen.get(shape.label):
                    self.unsure = f"at {shape.label} there is no call that could be asked again: take more samples"
                    continue
                self.say(f"asking again at {shape.label}")
                one = random.SystemRandom().choice(seen[shape.label])
                found += replay(self, shape, one, copied=shape.label in copied)
        except (Ended, ChildGone) as end:
            if not found:
                raise NotReplayed(f"when it was to be asked again, {end}") from end
        if self.unsure and not found:
            raise NotReplayed(self.unsure)
        return found

    def status(self, shapes: Sequence[ShapeResult]) -> Literal["right", "wrong", "refused"]:
        """The status of the whole trial: refused, wrong, or right when every shape is."""
        if self.failure or any(shape.status in WRONG for shape in shapes):
            return "wrong"
        if self.refusal:
            return "refused"
        return "wrong" if any(shape.status != "right" for shape in shapes) else "right"

    def message(self, shapes: Sequence[ShapeResult]) -> str:
        """One sentence: why the trial is not right, or else how much was compared."""
        bad = next((shape.message for shape in shapes if shape.status in WRONG), "")
        return self.failure or bad or self.refusal or compared_calls(shapes)

    def result(self, plan: ShapePlan) -> ShapeResult:
        """The record of what was seen of the shape of `plan`."""
        label = plan.shape.label
        trim = MEDIAN if self.options.published else self.options.trim
        quickest = planning.QUICKEST if self.on_gpu else 0
        return self.states[label].result(label, self.nulls.get(label), trim, quickest)

    @property
    def on_gpu(self) -> bool:
        """Whether the submission runs on a GPU."""
        return self.session.device.type == "cuda"

    # --- steps ---

    def started(self, calibrate: Sequence[Shape]) -> None:
        """Starts the process, measures empty calls at the shapes `calibrate`, and has the submission imported. Raises
        CheckError for what fails before the import, when no code of the submission has run; then Ended or ChildGone.
        """
        self.say("starting the submission's process")
        try:
            if self._lost is not None:
                raise self._lost
            expect(self.session.start(), "when it was started")
            self._spend("start")
            for shape in calibrate:
                self.say(f"measuring an empty call at {shape.label}")
                found = empty_calls(self.session, self.problem.id, self.contract.bind(shape))
                self.nulls[shape.label] = lesser(self.nulls.get(shape.label, found), found)
                self._spend("empty calls")
            if self.on_gpu:
                self.nulls = together(self.nulls, {one.label: self._call_bytes(one) for one in calibrate})
        except (Ended, ChildGone) as end:
            reason = (end.detail.strip().splitlines() or [str(end)])[-1]
            raise CheckError(f"the process for the submission could not be used: {reason}") from end
        self.say(f"{BUILDING}: importing the submission")
        expect(self.session.submission(), "when it was imported")
        self._spend("import")

    def over(self, state: Seen) -> bool:
        """Whether the trial ends with this shape, because a result was wrong and not all cases are asked for."""
        return state.status in WRONG and not self.options.all_cases

    def _first(self, plan: ShapePlan, state: Seen) -> None:
        if plan.first:
            if first_calls(self, plan, state):
                self._finish(plan.shape, state)
            self._spend("first calls")

    def _shape(self, plan: ShapePlan, state: Seen) -> None:
        state.status = "right" if state.status == "not-run" else state.status
        for group in plan.groups:
            if self.over(state):
                return
            models = single_calls(self, plan, group, state)
            self._spend("calls")
            if not models:
                continue
            if group.base and self.options.timing and state.status == "right":
                sealed_batches(self, plan.shape, state, models)
                lone_calls(self, plan.shape, state, models)
                self._spend("batches")
                ungated_calls(self, plan.shape, state, models)
                self._spend("launches")
            self._finish(plan.shape, state)

    def _later(self, plan: ShapePlan, state: Seen) -> None:
        models = later_calls(self, plan, state)
        self._spend("calls")
        if models:
            lone_calls(self, plan.shape, state, models)  # a host that disturbed them may be quiet by now
            self._spend("batches")
            self._finish(plan.shape, state)

    def _finish(self, shape: Shape, state: Seen) -> None:
        answer = self.session.finish()
        if answer.kind == Kind.FAULT:
            state.fault(f"at {shape.label}: {first_line(answer.text)}")
        else:
            expect(answer, f"at {shape.label}")

    def wanted(self, label: str) -> Wanted | None:
        """How precisely the times of a shape are to be known, where that needs more samples than usual; else None."""
        wanted, claimed = self.options.wanted.get(label), self.states[label].claimed
        return wanted if wanted and claimed and wanted.of(middle(claimed, self.options.trim)) else None

    def compare(
        self, case: Case, outputs: Sequence[Tensor], state: Seen, *, model: int = 0, digest: bool = False
    ) -> bool:
        """Compares `outputs` with the oracle, notes the result in `state`, and returns whether they are right."""
        whole = self.whole.get(case.shape.label) == case.spec.id
        held = hold(self.problem, self.code, case, outputs, self.master, whole=whole)
        result = held.result
        if not result.ok:
            state.fault(result.message)
        mark = digest_of(outputs, self.master) if digest else ""
        error = None if math.isnan(result.error) else result.error
        state.cases.append(CaseOutcome(
            case.spec.id, result.ok, error, result.tolerance, result.message, mark, held.rows, held.of_rows, model
        ))  # fmt: skip
        return result.ok

    # --- help ---

    def _spend(self, stage: str) -> None:
        """Notes that what was done since the last stage ended belongs to this one."""
        since, self._since = self._since, time.monotonic()
        self.spent[stage] = round(self.spent.get(stage, 0.0) + self._since - since, 3)

    def case(self, shape: Shape, spec: CaseSpec, state: State | None = None) -> Case:
        """The values of a call, drawn from the trial's key; `state` holds the weights where they are drawn already."""
        with ours(f"the inputs of {spec.id} of {self.problem.id}"):
            case = materialise(
                self.problem, shape, spec, self.master, device=self.device, code=self.code, state=state,
                binding=self.bindings.get(shape.label),
            )  # fmt: skip
        self.bindings[shape.label] = case.binding
        return case

    def _call_bytes(self, shape: Shape) -> int:
        """What the inputs and outputs of a call take."""
        binding = self.contract.bind(shape)
        return sum(size_of(layout(part, TORCH_DTYPES)) for part in (binding.inputs, binding.outputs))

    def _memory_taken(self) -> float:
        """Ends the submission and returns the share of the GPU's memory that is free for that."""
        if not self.on_gpu:
            return 0.0
        before, total = free_bytes(self.session.device)
        self.session.close()
        return (free_bytes(self.session.device)[0] - before) / total

    def usable(self, answer: Frame, when: str, state: Seen) -> bool:
        """Whether the model can be called after this `answer`; an error is noted in `state`, and a refusal raises
        Ended.
        """
        try:
            expect(answer, when)
        except Ended as end:
            if end.status == "refused":
                raise
            state.fault(str(end), "wrong" if answer.kind == Kind.FAULT else "crashed")
            self.detail = self.detail or end.detail
            return False
        return True

    def _ended(self, end: Ended, current: Seen | None) -> None:
        self.detail = self.detail or end.detail
        if end.status == "refused":
            self.refusal = str(end)
        elif current is None:
            self.failure = str(end)
        else:
            current.fault(str(end), end.status)
