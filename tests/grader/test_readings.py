"""A submission that chooses by its own stopwatch chooses the same in every process after the build."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from ground import OPTIONS, RIGHT, Ground, forward

from grader.candidate import readings as module
from grader.candidate.readings import CLOCKS, FILE, Readings, watch
from grader.judge.judging import build, replay, run_trial

# Sixteen ways to the same result, in other bits each: which is the fastest is a matter of chance.
TUNED = """
import random, time
CHOSEN = {}

def tune(key):
    took = {}
    for way in range(16):
        began = time.perf_counter()
        time.sleep(random.SystemRandom().uniform(0.0001, 0.002))
        took[time.perf_counter() - began] = way
    CHOSEN[key] = took[min(took)]
"""
CHOICE = "if len(x) not in CHOSEN: tune(len(x))\nreturn y * (1 + CHOSEN[len(x)] * 2.0**-20)"


@pytest.mark.cold
@pytest.mark.parametrize("kept", [True, False])
def test_results_of_a_submission_that_tunes_itself_are_those_of_the_trial_when_it_is_asked_again(
    ground: Callable[[str], Ground], tmp_path: Path, kept: bool
) -> None:
    """Without what the build kept, one replay in sixteen would give the bits of the trial."""
    here, store = ground(forward(RIGHT + CHOICE, TUNED)), tmp_path / "store"
    said = build(here.problem, here.snapshot, caches=store, **here.settings(OPTIONS))  # type: ignore[arg-type]
    assert (said.refused, said.ended) == ("", "") and (store / FILE).is_file()
    if not kept:
        (store / FILE).unlink()
    settings = here.settings(OPTIONS)
    trial = run_trial(
        here.problem, here.snapshot, index=0, master=bytes(32), caches=store, keep_log=here.keep,
        **settings,  # type: ignore[arg-type]
    )  # fmt: skip
    assert trial.status == "right", trial.message
    same, tries = 0, 2 if kept else 4
    while same < tries:
        try:
            assert replay(here.problem, here.snapshot, trial, caches=store, **settings) == ()  # type: ignore[arg-type]
            same += 1
        except Exception as error:
            assert type(error).__name__ == "NotReplayed" and "other bits" in str(error)
            break
    assert (same == tries) == kept


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """What the clock says next, in place of the time; what `watch` puts into the process is taken out again."""
    says: list[float] = []
    for name in CLOCKS:
        monkeypatch.setattr(time, name, getattr(time, name))
    monkeypatch.setattr(time, "perf_counter", lambda: says.pop(0))
    monkeypatch.setattr(module.torch.cuda.streams.Event, "elapsed_time", lambda self, end: end)
    yield says


def reader(folder: Path, name: str = "solution.py") -> Callable[[], list[float]]:
    """A function of a submission's file that reads the clock twice, in one line."""
    scope: dict[str, Any] = {}
    text = "import time\ndef read():\n    return [time.perf_counter() for _ in range(2)]\n"
    exec(compile(text, str(folder / name), "exec"), scope)
    return cast(Callable[[], list[float]], scope["read"])


def test_a_line_is_told_again_what_it_was_told_in_the_stage_of_that_name(tmp_path: Path, clocks: list[float]) -> None:
    read, first = reader(tmp_path), Readings(tmp_path, tmp_path / FILE)
    watch(first)
    first.begin()
    clocks += [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    with first.stage("call 1 of a"):
        read()
    with first.stage("call 1 of b"):
        read()
    with first.stage("call 1 of b"):  # of another model: the first one is kept
        read()
    again = Readings(tmp_path, tmp_path / FILE)
    watch(again)
    again.begin()
    clocks += [float(number) for number in range(10, 40)]
    with again.stage("call 1 of b"):
        assert read() == [3.0, 4.0] and read() == [12.0, 13.0], "what was not noted is as the clock says"
    with again.stage("call 1 of b"):
        assert read() == [3.0, 4.0], "each model hears it from the beginning"
    with again.stage("call 1 of c"):
        assert read() == [16.0, 17.0], "two stages have the line, neither is this one"
    assert read() == [18.0, 19.0], "no stage"
    with again.stage("call 1 of a"):
        assert reader(tmp_path / "elsewhere")() == [20.0, 21.0], "a file of somebody else"


def test_what_one_stage_alone_was_told_is_told_in_any(tmp_path: Path, clocks: list[float]) -> None:
    """A process that tunes once does so at the shape that comes first, and the trial shuffles them."""
    read, first = reader(tmp_path), Readings(tmp_path, tmp_path / FILE)
    watch(first)
    first.begin()
    clocks += [1.0, 2.0]
    with first.stage("call 1 of a"):
        read()
    again = Readings(tmp_path, tmp_path / FILE)
    watch(again)
    again.begin()
    clocks += [10.0, 11.0]
    with again.stage("call 1 of b"):
        assert read() == [1.0, 2.0]


def test_events_of_a_gpu_tell_again_what_they_told_whoever_asks(tmp_path: Path, clocks: list[float]) -> None:
    event = module.torch.cuda.streams.Event
    first = Readings(tmp_path, tmp_path / FILE)
    watch(first)
    first.begin()
    with first.stage("import"):
        told: list[Any] = [event.elapsed_time(None, number / 2) for number in range(3)]
    again = Readings(tmp_path, tmp_path / FILE)
    watch(again)
    again.begin()
    with again.stage("import"):
        assert [event.elapsed_time(None, 7.0) for _ in range(3)] == [7.0] * 3, "another line"
    assert told == [0.0, 0.5, 1.0] and clocks == []
    assert len(json.loads((tmp_path / FILE).read_text())["import"]) == 1


def test_events_that_an_interpreter_put_into_torch_are_left_alone(
    clocks: list[float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where Triton's kernels run on a CPU, `torch.cuda.Event` is a function of ours."""
    monkeypatch.setattr(module.torch.cuda, "Event", lambda **given: None)
    watch(Readings(tmp_path, tmp_path / FILE))
    assert module.torch.cuda.Event() is None and clocks == []


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"import": 3}', '{"import": {"solution.py:3": [1, "x"]}}',
     '{"import": {"solution.py:3": [NaN]}}', "[" * 100_000, '{"import": {"solution.py:3": "' + "x" * (5 << 20) + '"}}'],
    ids=["empty", "cut off", "a list", "null", "a number", "a text", "no number", "deep", "long"],
)  # fmt: skip
def test_a_file_that_is_none_of_ours_tells_nothing(text: str, tmp_path: Path, clocks: list[float]) -> None:
    (tmp_path / FILE).write_text(text)
    readings = Readings(tmp_path, tmp_path / FILE)
    watch(readings)
    readings.begin()
    clocks += [1.0, 2.0]
    with readings.stage("import"):
        assert reader(tmp_path)() == [1.0, 2.0]


def test_no_more_than_so_many_readings_are_kept(
    tmp_path: Path, clocks: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    readings = Readings(tmp_path, tmp_path / FILE)
    watch(readings)
    readings.begin()
    clocks += [float(number) for number in range(6)]
    read = reader(tmp_path)
    with readings.stage("import"):
        assert [*read(), *read(), *read()] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert list(json.loads((tmp_path / FILE).read_text())["import"].values()) == [[0.0, 1.0, 2.0]]
