"""Trials on a small problem: which process runs the submission when, and what a second one may know."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ground import EXACT, MASTER, OPTIONS, RIGHT, Ground, forward
from toy import HONEST

from grader.judge import batches, cores
from grader.judge import judging as judge
from grader.judge import trial as trial_module
from grader.judge.judging import replay, run_trial
from grader.judge.seen import Null
from grader.judge.session import Session
from grader.judge.trial import Trial
from grader.record.spread import Wanted
from grader.sandbox import SandboxError, choose


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user may write to."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.mark.cold
def test_half_of_the_samples_may_come_from_a_second_process_that_finds_nothing_of_the_first(
    ground: Callable[[str], Ground],
) -> None:
    note = "import os, pathlib\nnote = pathlib.Path(os.environ['HOME'], 'note')\n"
    note += "print('it is', note.exists())\nnote.write_text('n')\n"
    here = ground(note + forward("print('in', hash(x.numpy().tobytes()))\n" + RIGHT + "return y"))
    result = here.trial(replace(OPTIONS, samples=8, later=6, compare_least=4, wanted={here.label: EXACT}))
    (shape,) = result.shapes
    assert result.status == "right" and shape.timing is not None and len(shape.timing.claimed) == 14
    assert len(shape.timing.sealed) == 2, "the first process has them all"
    (log,), inputs = here.logs, [line for line in here.logs[0].splitlines() if line.startswith("in")]
    assert log.count("it is False") == 2
    assert len(set(inputs)) == len(inputs), "no value is drawn twice"
    later = {f"timed/{i}" for i in range(11, 19)}
    asked_again = {case.case for case in shape.cases if case.digest}
    assert len(({case.case for case in shape.cases} & later) - asked_again) <= 3 and asked_again & later
    assert here.replay(result) == ()


@pytest.mark.parametrize("on_gpu", [False, True])
def test_a_second_process_on_a_gpu_makes_the_empty_calls_of_the_first_before_the_import(
    ground: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch, on_gpu: bool
) -> None:
    """Times depend on what was done before in a process: where in memory later tensors lie."""
    asked: list[tuple[int, bool]] = []
    measure = trial_module.empty_calls

    def empty_calls(session: Session, *more: Any) -> Null:
        asked.append((id(session), session.imported))
        return measure(session, *more)

    monkeypatch.setattr(trial_module, "empty_calls", empty_calls)
    monkeypatch.setattr(Trial, "on_gpu", property(lambda self: on_gpu))
    monkeypatch.setattr(trial_module.Trial, "_memory_taken", lambda self: 0.0)
    here = ground(HONEST)
    result = here.trial(replace(OPTIONS, samples=8, later=6, compare_least=4, wanted={here.label: EXACT}))
    assert result.status == "right"
    assert len({one for one, _ in asked}) == len(asked) == 1 + on_gpu and not any(late for _, late in asked)


@pytest.mark.parametrize("wanted", [{}, {"most": 0.0}], ids=["not wanted", "too slow a call"])
def test_one_process_takes_all_samples_of_a_shape_that_need_not_be_known_so_well(
    ground: Callable[[str], Ground], wanted: dict[str, float]
) -> None:
    here = ground("print('import')\n" + HONEST)
    options = replace(OPTIONS, samples=8, later=6, compare_least=4)
    if wanted:
        options = replace(options, wanted={here.label: Wanted(0.0, **wanted)})
    result = here.trial(options)
    (shape,) = result.shapes
    assert result.status == "right" and here.logs == ["import\n"]
    assert shape.timing is not None and len(shape.timing.claimed) == 14
    asked_again = {case.case for case in shape.cases if case.digest}
    assert len(asked_again) == 2 and len(asked_again & {f"timed/{i}" for i in range(11, 19)}) == 1


def test_samples_that_the_first_process_took_are_not_taken_again_when_they_change_what_is_wanted(
    ground: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([None])
    monkeypatch.setattr(Trial, "wanted", lambda self, label: next(answers, EXACT))
    here = ground("print('import')\n" + HONEST)
    (shape,) = here.trial(replace(OPTIONS, samples=8, later=6)).shapes
    assert here.logs == ["import\n"] and shape.timing is not None and len(shape.timing.claimed) == 14


@pytest.fixture
def apart(ground: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Ground]:
    """Grounds with a sandbox that keeps two processes apart, on a machine that has room for two."""

    def made(text: str) -> Ground:
        here = ground(text)
        here.sandbox = bubblewrap
        return here

    try:
        bubblewrap = choose(device="cpu", wanted="bubblewrap")
    except SandboxError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(cores, "LEAST_CPUS", 1)
    return made


def spied(monkeypatch: pytest.MonkeyPatch, events: list[str], *names: str) -> None:
    """Writes down what of these is asked of sessions."""

    def spy(name: str) -> None:
        original = getattr(Session, name)

        def noted(self: Session, *rest: Any, **more: Any) -> Any:
            events.append(name)
            return original(self, *rest, **more)

        monkeypatch.setattr(Session, name, noted)

    for name in names:
        spy(name)


def test_the_second_process_starts_beside_the_first_and_runs_the_submission_when_that_has_ended(
    apart: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    spied(monkeypatch, events, "__init__", "start", "submission", "close")
    monkeypatch.setattr(batches, "denies", lambda *_: False)  # a busy host would have calls made alone again
    note = "import os, pathlib, time\nhome = pathlib.Path(os.environ['HOME'])\nnote = home / 'note'\n"
    note += "print('it is', note.exists(), os.getuid(), home, time.monotonic())\nnote.write_text('n')\n"
    again = "note.write_text('more')\nprint('call', time.monotonic())\n"
    here = apart(note + forward(again + RIGHT + "return y"))
    result = here.trial(replace(OPTIONS, samples=8, later=6, compare_least=4, wanted={here.label: EXACT}))
    assert result.status == "right", result.message
    first, second = (line.split()[2:] for line in here.logs[0].splitlines() if line.startswith("it is"))
    assert (first[0], second[0]) == ("False", "False") and first[2] == second[2], "other folders, of the same name"
    if os.getuid() == 0:
        assert first[1] != second[1]
    assert events == ["__init__", "start", "submission", "__init__", "close", "start", "submission", "close"]
    calls = [float(line.split()[1]) for line in here.logs[0].splitlines() if line.startswith("call")]
    before = [call for call in calls if call < float(second[3])]
    assert len(before) > 8 and len(calls) - len(before) == 9, "three warm-ups and six samples come after its import"
    assert not list(here.scratch.glob("first-*"))


@pytest.mark.parametrize("early", [True, False])
def test_a_process_is_up_before_its_turn_and_runs_the_submission_only_within(
    ground: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    events: list[str] = []

    @contextlib.contextmanager
    def held() -> Iterator[None]:
        events.append("take")
        yield
        events.append("give")

    spied(monkeypatch, events, "__init__", "up", "start", "submission", "load", "close")
    monkeypatch.setattr(judge, "enough", lambda: early)
    here = ground(HONEST)
    trial = run_trial(
        here.problem, here.snapshot, index=0, master=MASTER, caches=None, keep_log=here.keep, held=held,
        **here.settings(OPTIONS),  # type: ignore[arg-type]
    )  # fmt: skip
    assert trial.status == "right", trial.message
    first = ["__init__", "up", "take"] if early else ["take", "__init__", "up"]
    order = [name for number, name in enumerate(events) if name != events[number - 1]]
    assert order[:3] == first and order[-2:] == ["close", "give"]
    assert events.count("take") == 1 and events.index("take") < events.index("load") < events.index("submission")
    events.clear()
    replay(here.problem, here.snapshot, trial, caches=None, held=held, **here.settings(OPTIONS))  # type: ignore[arg-type]
    assert events[:3] == first and events[-1] == ("give" if not early else events[-1])
    assert events.index("take") < events.index("submission") < events.index("give")


def test_a_second_process_that_is_not_wanted_any_more_is_ended(
    apart: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Session] = []

    def noted(*rest: Any, _do: Any = judge._session, **more: Any) -> Session:
        made.append(_do(*rest, **more))
        return made[-1]

    monkeypatch.setattr(judge, "_session", noted)
    here = apart(forward("return x * 0 + 7"))
    assert here.trial(replace(OPTIONS, later=4, wanted={here.label: EXACT})).status == "wrong"
    assert len(made) == 2 and all(one._child._closed for one in made) and not list(here.scratch.glob("first-*"))


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("if again: y += 1\nreturn y", "wrong", "are off by more than"),
        ("if again: raise ValueError('late')\nreturn y", "wrong", "raised ValueError: late"),
        ("if again: os._exit(3)\nreturn y", "wrong", "ended its process (exit status 3)"),
    ],
)
def test_what_goes_wrong_in_the_second_process_counts(
    ground: Callable[[str], Ground], shared: Path, body: str, status: str, words: str
) -> None:
    mark = f"import os, pathlib\nmark = pathlib.Path({str(shared / 'mark')!r})\nagain = mark.exists()\nmark.touch()\n"
    here = ground(forward(RIGHT + body, mark))
    result = here.trial(replace(OPTIONS, later=4, wanted={here.label: EXACT}))
    assert result.status == status and words in result.message
