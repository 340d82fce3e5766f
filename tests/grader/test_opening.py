"""What a process beside a profiler rehearses before its turn: models are made then, and copied in the turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from test_copies import INIT, slow
from test_judge import OPTIONS, Ground
from toy import HONEST

from grader.deck.code import load_code
from grader.judge import judging
from grader.judge.session import Session
from grader.record.cell import TrialResult
from grader.silicon import opening, passes
from grader.silicon.ncu import ProfilerError
from grader.silicon.opening import opened, rehearsal
from grader.silicon.passes import Bench


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much of the device is free, of 100 bytes."""
    free = [100]
    monkeypatch.setattr(opening, "free_bytes", lambda device: (free[0], 100))
    return free


def started(here: Ground) -> Session:
    options = replace(OPTIONS, timing=False)
    return judging.begin(here.snapshot, "cpu", options, here.sandbox, here.scratch / "beside", None)


def rehearse(here: Ground) -> Callable[[Session], None]:
    return partial(rehearsal, here.problem, "reduced", "cpu")


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
    with started(here) as session:
        assert opened(session, rehearse=rehearse(here))
        assert asked(here, session, trial) is None
        assert session.loads == 2
    assert session.log.count("made") == 1


def test_where_copies_give_other_results_the_submission_makes_the_model_of_the_turn_itself(tmp_path: Path) -> None:
    known = "        KNOWN.append(self)\n        self.tag = len(KNOWN)\n"
    text = slow(known, "        self = next(one for one in KNOWN if one.tag == self.tag)\n")
    here = Ground(tmp_path, text.replace("class Model", "KNOWN = []\n\n\nclass Model"))
    trial = here.trial()
    with started(here) as session:
        assert opened(session, rehearse=rehearse(here))
        assert asked(here, session, trial) is None
        assert session.loads == 3
    assert session.log.count("made") == 2


def test_other_results_than_the_trial_s_are_told_of_a_copy_and_of_what_the_submission_made(tmp_path: Path) -> None:
    here = Ground(tmp_path, slow("", "        x = x * 2\n"))
    (tmp_path / "honest").mkdir()
    trial = Ground(tmp_path / "honest", HONEST).trial()
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


def test_an_import_that_fails_is_told(tmp_path: Path) -> None:
    here = Ground(tmp_path, "raise OSError('no')\n")
    with started(here) as session, pytest.raises(ProfilerError, match="when it was imported: OSError: no"):
        opened(session, rehearse=rehearse(here))


@pytest.mark.parametrize("fault", [None, torch.OutOfMemoryError("the judge's own")])
def test_nothing_is_rehearsed_where_memory_is_short_and_running_out_of_it_is_no_fault(
    fault: Exception | None, tmp_path: Path, memory: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn(*_: object, **__: object) -> None:
        assert fault is not None, "nothing is drawn"
        raise fault

    memory[0] = 100 if fault else 49
    monkeypatch.setattr(opening, "materialise", drawn)
    here = Ground(tmp_path, HONEST)
    with started(here) as session:
        assert opened(session, rehearse=rehearse(here)) == (fault is None)
        assert session.loads == 0
