"""What a process is asked before its turn: to import the submission, and to rehearse.

Nothing that it gives then is looked at. It uses the device beside others by which nothing is timed. A trial has a part
in which nothing is timed either: the import, and the calls that show whether results are right. Other processes of the
same grading, which are to be asked later, may be asked beside that: through a gate (`Meanwhile`) that is shut before
anything is timed, when all who are inside have left.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from grader.deck.cases import Case, CaseSpec, materialise
from grader.deck.code import TORCH_DTYPES, DeckError, load_code
from grader.deck.keys import new_master
from grader.judge import plan as planning
from grader.judge.answers import Ended, expect
from grader.judge.empty_calls import made_again
from grader.judge.resources import free_bytes
from grader.judge.session import Session
from grader.sandbox.base import CheckError
from grader.sandbox.supervise import ChildGone
from grader.wire.channel import layout, size_of
from kbh_lint.problems import Problem

__all__ = ["Enough", "Meanwhile", "Rehearse", "Step", "Visitor", "Waiting", "alike", "opened", "rehearsal"]

LEAST_FREE = 0.5  # of the device's memory, for a rehearsal beside other processes
HELD = 24  # times a shape's tensors must be free: for four processes with as much again, and an oracle in fp64
FAULTS = (ChildGone, CheckError, DeckError, Ended, OSError, torch.OutOfMemoryError)
Step = Callable[[], AbstractContextManager[None]]
Rehearse = Callable[[Session, Step], None]


class Enough(Exception):
    """What is done before a turn is wanted no longer: the turn has come, or the grading is over."""


class Meanwhile:
    """The gate, shut at first. Each process that goes through it is a `Visitor`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._hold: Callable[[], AbstractContextManager[None]] | None = None
        self._inside, self._over = 0, False

    def let(self, hold: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        """Opens the gate: visitors may make their steps, each inside `hold()`."""
        with self._changed:
            self._hold = hold
            self._changed.notify_all()

    def shut(self) -> None:
        """Closes the gate, and waits until no visitor is inside."""
        with self._changed:
            self._hold = None
            self._changed.wait_for(lambda: not self._inside)

    def end(self) -> None:
        """Ends the gate for good: visitors that wait, or come later, get Enough."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def visitor(self) -> Visitor:
        """A new visitor of this gate."""
        return Visitor(self)

    @contextlib.contextmanager
    def _within(self, visitor: Visitor) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._over or visitor.left or self._hold is not None)
            hold = self._hold
            if self._over or visitor.left or hold is None:
                raise Enough
            self._inside += 1
        try:
            with hold():
                yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def _leaves(self, visitor: Visitor) -> None:
        with self._changed:
            visitor.left = True
            self._changed.notify_all()


class Visitor:
    """A process's way through the gate, one question at a time."""

    def __init__(self, gate: Meanwhile) -> None:
        self._gate = gate
        self.left = False

    def step(self) -> AbstractContextManager[None]:
        """A context in which one question may be asked; entering it waits until the gate is open. Raises Enough."""
        return self._gate._within(self)

    def enough(self) -> None:
        """Ends this visitor: its next step raises Enough."""
        self._gate._leaves(self)


def opened(
    session: Session, step: Step = nullcontext, rehearse: Rehearse | None = None, before: Rehearse | None = None
) -> bool:
    """Has the submission imported and, with `rehearse`, called, each question inside `step()`, until that raises
    Enough. `before` runs before the import.

    Returns whether the process can be used further: an error here is held against nobody, and a fresh process is asked
    in its turn.
    """
    try:
        expect(session.up(), "when it was started")
        with step():
            expect(session.start(), "when it was started")
        if before is not None:
            before(session, step)
        with step():
            expect(session.submission(), "when it was imported")
        if rehearse is not None:
            rehearse(session, step)
    except Enough:
        return True
    except FAULTS:
        return False
    return True


def alike(problem: Problem, scale: str, session: Session, step: Step) -> None:
    """Makes the empty calls that a timed process makes at each shape, so that this process is in the same state; their
    times are not used.
    """
    contract = next(iter(problem.contracts.values()))
    for shape in planning.graded_shapes(problem, scale):
        with step():
            made_again(session, contract.bind(shape))


def rehearsal(problem: Problem, scale: str, device: str, calls: int, session: Session, step: Step) -> None:
    """Makes the model of each shape and calls it on throw-away values, `calls` times at the first shape and once at the
    others.

    Some submissions take a second to make a model, and a profiler one more for its first call. What was made here is
    copied in the turn, where copies give right results. Shapes are left out where too little of the device's memory is
    free.
    """
    code, master = load_code(problem), new_master()
    for shape in planning.graded_shapes(problem, scale):
        with step():
            free, total = free_bytes(session.device)
            if free < LEAST_FREE * total:
                continue
            spec = CaseSpec("rehearsal", "nominal")
            case = materialise(problem, shape, spec, master, device=device, code=code, state=None)
            if HELD * _bytes(case) > free:
                continue
            expect(session.load(case.binding, [case.state], rounds=planning.LEAST_ROUNDS), f"at {shape.label}")
        for number in range(calls):
            with step():
                expect(session.call(min(number, 1), case.inputs, f"run at {shape.label}").answer, f"at {shape.label}")
        calls = 1


def _bytes(case: Case) -> int:
    """What a shape's tensors take."""
    given = sum(tensor.nbytes for tensor in (*case.state.values(), *case.inputs.values()))
    return given + size_of(layout(case.binding.outputs, TORCH_DTYPES))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A process that waits for its turn; another thread has it `opened`, as long as the `visitor` may."""

    session: Session
    visitor: Visitor | None = None
    opened: Future[bool] | None = None

    def taken(self) -> Session | None:
        """The process, whose turn has come; None where it cannot be used further. Raises what ending it raises."""
        if self.visitor is not None:
            self.visitor.enough()
        if self.opened is None or self.opened.result():
            return self.session
        self.session.close()
        return None
