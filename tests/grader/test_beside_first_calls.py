"""A trial with real processes whose second one rehearses beside the first calls: what that changes, and what not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ground import EXACT, MASTER, OPTIONS, Ground, forward
from toy import HONEST

from grader.judge import judging, opening, single_calls
from grader.judge.judging import run_trial
from grader.judge.opening import Meanwhile, Waiting, opened, rehearsal
from grader.judge.session import Session
from grader.judge.trial import Trial
from grader.record.cell import TrialResult

COUNTED = "print('called', len(LOG))\nLOG.append(1)\n"


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device with memory to spare."""
    monkeypatch.setattr(opening, "free_bytes", lambda device: (1 << 30, 1 << 30))


def rehearsed(waiting: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is timed before all of the rehearsal is over."""
    quiet = Trial._quiet

    def waits(self: Trial, timed: Any) -> None:
        assert waiting.opened is not None
        waiting.opened.result(60)
        quiet(self, timed)

    monkeypatch.setattr(Trial, "_quiet", waits)


@contextmanager
def second(here: Ground, gate: Meanwhile) -> Iterator[Waiting]:
    """The process of the later samples, which is opened by another thread when the gate lets it."""
    options = replace(OPTIONS, timing=True)
    session = judging.begin(here.snapshot, "cpu", options, here.sandbox, here.scratch / "later", None)
    visitor = gate.visitor()
    rehearse = partial(rehearsal, here.problem, "reduced", "cpu", 1)
    with session, ThreadPoolExecutor(1) as other:
        yield Waiting(session, visitor, other.submit(opened, session, visitor.step, rehearse))
        gate.end()


def trial(here: Ground, gate: Meanwhile, waiting: Waiting) -> TrialResult:
    options = replace(OPTIONS, samples=8, later=6, compare_least=4, wanted={here.label: EXACT})
    return run_trial(
        here.problem, here.snapshot, index=0, master=MASTER, caches=None, keep_log=here.keep, later=waiting.taken,
        meanwhile=gate, **here.settings(options),  # type: ignore[arg-type]
    )  # fmt: skip


def test_the_second_process_rehearses_beside_the_first_calls_and_takes_the_later_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = forward(COUNTED + "return (x @ self.w) * (torch.arange(len(x)) < used)[:, None]", "LOG = []\n")
    here, gate = Ground(tmp_path, "print('import')\n" + text), Meanwhile()
    monkeypatch.setattr(Trial, "on_gpu", property(lambda self: True))  # for all that the judge does of its own there
    with second(here, gate) as waiting:
        rehearsed(waiting, monkeypatch)
        result = trial(here, gate, waiting)
    (shape,) = result.shapes
    assert result.status == "right" and shape.timing is not None and len(shape.timing.claimed) == 14
    first, _, rest = here.logs[0].partition("import\n")[2].partition("import\n")
    assert "called 0" in first and rest.splitlines()[0] == "called 0", "two processes, each imported once"
    assert rest.count("called") >= 6 + 1, "its samples, and the one call before"


def test_nothing_is_timed_before_the_others_have_made_their_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, gate = Ground(tmp_path, HONEST), Meanwhile()
    events: list[str] = []
    inside, leave = threading.Event(), threading.Event()
    single, quiet = single_calls.single_calls, Trial._quiet

    def held(visitor: Any) -> None:
        with visitor.step():
            inside.set()
            assert leave.wait(60)
            events.append("left")

    def waits(self: Trial, timed: Any) -> None:
        assert inside.wait(60), "who waits is let in with the import"
        leave.set()
        quiet(self, timed)

    def calls(*arguments: Any) -> Any:
        events.append("timed")
        return single(*arguments)

    monkeypatch.setattr(Trial, "_quiet", waits)
    monkeypatch.setattr("grader.judge.trial.single_calls", calls)
    with ThreadPoolExecutor(1) as other:
        step = other.submit(held, gate.visitor())
        result = run_trial(
            here.problem, here.snapshot, index=0, master=MASTER, caches=None, keep_log=here.keep, meanwhile=gate,
            **here.settings(OPTIONS),  # type: ignore[arg-type]
        )  # fmt: skip
        step.result(60)
    assert result.status == "right" and events[0] == "left" and "timed" in events


def test_a_second_process_that_cannot_be_used_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, gate = Ground(tmp_path, "print('import')\n" + HONEST), Meanwhile()
    loaded: list[Session] = []
    load = Session.load

    def dies(self: Session, *arguments: Any, **more: Any) -> Any:
        if self is waiting.session:
            loaded.append(self)
            self.close()
        return load(self, *arguments, **more)

    monkeypatch.setattr(Session, "load", dies)
    with second(here, gate) as waiting:
        rehearsed(waiting, monkeypatch)
        result = trial(here, gate, waiting)
    assert result.status == "right" and loaded == [waiting.session]
    assert here.logs[0].count("import") == 2, "that of the first, and of one in its place"
