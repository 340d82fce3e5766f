"""What a process beside a profiler is asked before its turn: to import the submission, and to rehearse.

Nothing that it gives then is looked at. It uses the device beside others by which nothing is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch

from grader.deck.cases import CaseSpec, materialise
from grader.deck.code import DeckError, load_code
from grader.deck.keys import new_master
from grader.judge import plan as planning
from grader.judge.resources import free_bytes
from grader.judge.session import Session
from grader.sandbox.base import CheckError
from grader.sandbox.supervise import ChildGone
from grader.silicon.ncu import ProfilerError
from grader.wire.frames import Frame, Kind, clean_text
from grader.wire.marks import UNSEEN_CALLS
from kbh_lint.problems import Problem

__all__ = ["expect", "opened", "rehearsal"]

LEAST_FREE = 0.5  # of the device's memory, for a rehearsal beside other processes


def expect(answer: Frame, when: str) -> None:
    """Raises ProfilerError with what the submission said, if it failed."""
    if answer.kind not in (Kind.READY, Kind.DONE):
        said = clean_text(answer.text.partition("\n")[0], 300) or answer.kind.name
        raise ProfilerError(f"beside a profiler the submission failed {when}: {said}")


def opened(
    session: Session, held: Callable[[], AbstractContextManager[None]] = nullcontext,
    rehearse: Callable[[Session], None] | None = None,
) -> bool:  # fmt: skip
    """Has the submission imported and, with `rehearse`, tried, inside `held()`; the process is up then. Raises
    ProfilerError.

    Whether it can be used further: what goes wrong in a rehearsal is held against nobody, and a fresh process is asked.
    """
    try:
        expect(session.up(), "when it was started")
        with held():
            expect(session.start(), "when it was started")
            expect(session.submission(), "when it was imported")
            return rehearse is None or _tried(session, rehearse)
    except ChildGone as gone:
        raise ProfilerError(f"beside a profiler {gone}") from gone


def _tried(session: Session, rehearse: Callable[[Session], None]) -> bool:
    try:
        rehearse(session)
        return True
    except (ChildGone, CheckError, DeckError, ProfilerError, torch.OutOfMemoryError):
        return False


def rehearsal(problem: Problem, scale: str, device: str, session: Session) -> None:
    """Has each model made and called on values that mean nothing, while the device is used by others too.

    Some submissions take a second to make a model, and a profiler one more for its first call. What was made here is
    copied in the turn, where copies give the trial's results. Nothing is done where the device's memory is taken.
    """
    free, total = free_bytes(session.device)
    if free < LEAST_FREE * total:
        return
    code, master, first = load_code(problem), new_master(), True
    for shape in planning.graded_shapes(problem, scale):
        spec = CaseSpec("rehearsal", "nominal")
        case = materialise(problem, shape, spec, master, device=device, code=code, state=None)
        expect(session.load(case.binding, [case.state], rounds=planning.LEAST_ROUNDS), f"at {shape.label}")
        for number in range(UNSEEN_CALLS + 1 if first else 1):  # the first is marked as well, and read by nobody
            expect(session.call(min(number, 1), case.inputs, f"run at {shape.label}").answer, f"at {shape.label}")
        first = False
