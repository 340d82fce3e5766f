"""What a process rehearses before its turn: models are made then, and copied in the turn."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from ground import OPTIONS, Ground
from test_copies import INIT, slow
from toy import HONEST

from grader.deck.code import load_code
from grader.judge import judging, opening
from grader.judge.opening import Meanwhile, Rehearse, Step, Waiting, alike, opened, rehearsal
from grader.judge.session import Session
from grader.record.cell import TrialResult
from grader.silicon import passes
from grader.silicon.ncu import ProfilerError
from grader.silicon.passes import Bench
from grader.wire.marks import UNSEEN_CALLS

ALL = 100_000_000


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes of the device are free, of 100 MB."""
    free = [ALL]
    monkeypatch.setattr(opening, "free_bytes", lambda device: (free[0], ALL))
    return free


def started(here: Ground) -> Session:
    options = replace(OPTIONS, timing=False)
    return judging.begin(here.snapshot, "cpu", options, here.sandbox, here.scratch / "beside", None)


def rehearse(here: Ground) -> Rehearse:
    return partial(rehearsal, here.problem, "reduced", "cpu", UNSEEN_CALLS + 1)


def asked(here: Ground, session: Session, trial: TrialResult) -> bool | None:
    """What the turn makes of the one shape: None where it gave what the trial saw."""
    bench = Bench(
        here.problem, here.snapshot, trial, "cpu", "reduced", OPTIONS, here.sandbox, lambda: here.scratch, None,
        here.keep, lambda text: None,
    )  # fmt: skip
    return passes._again(bench, load_code(here.problem), session, bench.shapes[0], 1)


def test_a_model_that_is_slow_to_make_is_made_in_the_rehearsal_and_copied_in_the_turn(tmp_path: Path) -> None:
    here = Ground(tmp_path, slow())
    trial = here.trial()
    assert trial.shapes[0].copied
    with started(here) as session:
        assert opened(session, rehearse=rehearse(here))
        assert asked(here, session, trial) is None
        assert session.loads == 2
    assert session.log.count("made") == 1


TAGGED = "        KNOWN.append(self)\n        self.tag = len(KNOWN)\n"
MIXED = "        self = next(one for one in KNOWN if one.tag == self.tag)\n"


@pytest.mark.parametrize(
    ("text", "made"),
    [(slow(), 1), (slow(TAGGED, MIXED).replace("class Model", "KNOWN = []\n\n\nclass Model"), 2)],
    ids=["copies are as right", "copies give other results"],
)
def test_a_replay_asks_copies_of_what_was_rehearsed_where_they_give_the_trial_s_results(
    text: str, made: int, tmp_path: Path
) -> None:
    here = Ground(tmp_path, text)
    trial = here.trial()
    with started(here) as session:
        assert opened(session, rehearse=rehearse(here))
        again: dict[str, Any] = here.settings(OPTIONS)
        assert judging.replay(here.problem, here.snapshot, trial, caches=None, begun=session, **again) == ()
    assert session.log.count("made") == made


@pytest.mark.parametrize(("copied", "loads"), [(False, 2), (True, 3)])
def test_where_copies_give_other_results_the_submission_makes_the_model_of_the_turn_itself(
    copied: bool, loads: int, tmp_path: Path
) -> None:
    """None is tried where the trial had none, whose first model alone may be honest."""
    here = Ground(tmp_path, slow(TAGGED, MIXED).replace("class Model", "KNOWN = []\n\n\nclass Model"))
    trial = here.trial()
    assert not trial.shapes[0].copied, "its copies are wrong"
    with started(here) as session:
        assert opened(session, rehearse=rehearse(here))
        assert asked(here, session, of_copies(trial, copied)) is None
        assert session.loads == loads
    assert session.log.count("made") == 2


def of_copies(trial: TrialResult, copied: bool) -> TrialResult:
    """The trial as it would be if its models were copies, or were not."""
    return replace(trial, shapes=tuple(replace(shape, copied=copied) for shape in trial.shapes))


def test_other_results_than_the_trial_s_are_told_of_a_copy_and_of_what_the_submission_made(tmp_path: Path) -> None:
    here = Ground(tmp_path, slow("", "        x = x * 2\n"))
    (tmp_path / "honest").mkdir()
    trial = of_copies(Ground(tmp_path / "honest", HONEST).trial(), True)
    with started(here) as session:
        assert opened(session, rehearse=rehearse(here))
        assert asked(here, session, trial) is False
        assert session.loads == 3


@pytest.mark.parametrize("fault", ["raise OSError('no')", "import os; os._exit(3)"])
def test_a_rehearsal_that_fails_is_held_against_nobody_but_ends_the_use_of_the_process(
    fault: str, tmp_path: Path
) -> None:
    here = Ground(tmp_path, HONEST.replace(INIT, f"{INIT}        {fault}\n"))
    with started(here) as session:
        assert not opened(session, rehearse=rehearse(here))
    with started(here) as session:
        assert opened(session), "as it is without one"


def test_an_import_that_fails_is_told_by_a_process_in_its_turn(tmp_path: Path) -> None:
    here = Ground(tmp_path, "raise OSError('no')\n")
    with started(here) as session:
        assert not opened(session, rehearse=rehearse(here))
    with started(here) as session, pytest.raises(ProfilerError, match="when it was imported: OSError: no"):
        session.up()
        session.start()
        passes.expect(session.submission(), "when it was imported")


def test_a_process_rehearses_while_it_is_let_and_is_taken_for_its_turn_where_it_stands(tmp_path: Path) -> None:
    """The gate is shut after the import: the model of the turn is the first that is made."""
    here = Ground(tmp_path, "print('import')\n" + HONEST.replace(INIT, f"{INIT}        print('made')\n"))
    trial, gate = here.trial(), Meanwhile()
    visitor, asked_for = gate.visitor(), []

    def step() -> AbstractContextManager[None]:
        asked_for.append(len(asked_for))
        if len(asked_for) > 2:
            inside.set()
            gate.shut()
        return visitor.step()

    inside = threading.Event()
    with started(here) as session, ThreadPoolExecutor(1) as other:
        gate.let()
        waiting = Waiting(session, visitor, other.submit(opened, session, step, rehearse(here)))
        assert inside.wait(60) and not waiting.opened.done()  # type: ignore[union-attr]
        assert waiting.taken() is session and session.loads == 0
        assert asked(here, session, trial) is None, "it is not imported again"
    assert session.log.count("import") == session.log.count("made") == 1


def test_a_process_that_cannot_be_used_further_is_ended_when_its_turn_comes(tmp_path: Path) -> None:
    here, gate = Ground(tmp_path, HONEST.replace(INIT, f"{INIT}        raise OSError('no')\n")), Meanwhile()
    visitor = gate.visitor()
    with started(here) as session, ThreadPoolExecutor(1) as other:
        gate.let()
        found = other.submit(opened, session, visitor.step, rehearse(here))
        assert not found.result()
        assert Waiting(session, visitor, found).taken() is None
        assert session.process.processes() == []


@pytest.mark.parametrize("fault", [None, torch.OutOfMemoryError("the judge's own")])
def test_nothing_is_rehearsed_where_memory_is_short_and_running_out_of_it_is_no_fault(
    fault: Exception | None, tmp_path: Path, memory: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn(*_: object, **__: object) -> None:
        assert fault is not None, "nothing is drawn"
        raise fault

    memory[0] = ALL if fault else ALL // 2 - 1
    monkeypatch.setattr(opening, "materialise", drawn)
    here = Ground(tmp_path, HONEST)
    with started(here) as session:
        assert opened(session, rehearse=rehearse(here)) == (fault is None)
        assert session.loads == 0


def test_a_shape_that_would_take_much_of_the_memory_is_not_rehearsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "HELD", ALL)
    here = Ground(tmp_path, HONEST)
    with started(here) as session:
        assert opened(session, rehearse=rehearse(here)) and session.loads == 0


def test_one_that_will_be_timed_makes_empty_calls_before_the_import_and_keeps_nothing_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    here = Ground(tmp_path, HONEST)
    with started(here) as session:
        seen: list[bool] = []

        def before(asked: Session, step: Step) -> None:
            alike(here.problem, "reduced", asked, step)
            seen.append(asked.imported)

        assert opened(session, before=before)
        assert seen == [False] and session.imported and session.loads == 1
    assert not (tmp_path / "cache").exists(), "others used the device meanwhile"
