"""A branch on an unknown is asked by a call, not by a place in memory."""

from __future__ import annotations

from kbh_lint.frontends import python
from kbh_lint.host.run import Run
from kbh_lint.host.values.frames import Frame
from kbh_lint.host.values.session import Session
from kbh_lint.host.values.tensors import Unknown


def answers(run: Run, calls: int, each: int) -> list[bool]:
    """What a branch comes to, asked `each` times by every one of `calls` calls, each of which ends before the next."""
    found = []
    for _ in range(calls):
        run.frames.append(Frame(run.scopes.main, run.scopes.main, None, None))
        found += [run.decide("place", Unknown()) for _ in range(each)]
        run.frames.pop()  # the next frame may be made where this one was
    return found


def test_a_call_is_not_taken_for_the_one_that_ended_before_it() -> None:
    run = Run(Session(python.lower("", "solution.py"), {}, (12, 0)), {})
    assert answers(run, 20, 1) == [False] * 20
    assert not run.decisions.mixed


def test_the_second_question_of_one_call_gets_the_other_answer() -> None:
    run = Run(Session(python.lower("", "solution.py"), {}, (12, 0)), {})
    assert answers(run, 1, 3) == [False, True, False]
    assert run.decisions.mixed == {"place"}
