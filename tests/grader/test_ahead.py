"""Processes of the evidence pass that start while the trial runs: each once, apart, and none is left behind."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from grading import few_calls, measured_before, toy_request
from toy import HONEST

from grader.grading import ahead as module
from grader.grading import beside, stages
from grader.grading.ahead import PLACES, Ahead
from grader.grading.grade import grade
from grader.judge import judging, turns
from grader.judge import plan as planning
from grader.sandbox import SandboxError, choose
from grader.silicon.ncu import Unavailable
from grader.silicon.passes import Begun


class _Session:
    closed = begun = False
    process = SimpleNamespace(processes=list)

    def up(self) -> None:
        pass

    def start(self) -> None:
        self.begun = True

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, tuple[Any, Path, _Session]]]:
    """A machine with a GPU, on which nobody else takes turns, and processors to spare: what was started, with its
    sandbox and folder."""
    found: dict[str, tuple[Any, Path, _Session]] = {}

    def session(name: str, sandbox: object, scratch: Path) -> Any:
        scratch.mkdir(parents=True)
        found[name] = sandbox, scratch, _Session()
        return found[name][2]

    def replay(snapshot: object, device: str, options: object, sandbox: object, scratch: Path, caches: object) -> Any:
        return session(scratch.name, sandbox, scratch)

    def profiled(instrument: str, snapshot: object, *, sandbox: object, scratch: Path, **more: object) -> Begun:
        return Begun(session(instrument, sandbox, scratch), scratch, None, bool(more["own"]))

    monkeypatch.setattr(module, "enough", lambda: True)
    monkeypatch.setattr(module, "second", lambda sandbox, place: (sandbox, place))
    monkeypatch.setattr(judging, "begin", replay)
    monkeypatch.setattr(module, "begin", profiled)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
    monkeypatch.setenv("KBH_LOCK_DIR", str(tmp_path))
    monkeypatch.setattr(turns, "device_key", lambda device: "a gpu")
    yield found


@pytest.fixture
def sandbox() -> Any:
    """Something that is only passed on."""
    return object()


def job(folder: Path, device: str = "cuda") -> Any:
    snapshot = SimpleNamespace(calls_nvcc=False, apart=False, tunes=False)
    chosen = SimpleNamespace(record=SimpleNamespace(scale="full"))
    options = SimpleNamespace(timing=True, later=1, wanted=("a shape",))
    return SimpleNamespace(
        device=device,
        scratch=folder,
        snapshot=snapshot,
        options=options,
        problem=None,
        chosen=chosen,
        tell=lambda progress: None,
    )


def test_each_process_has_a_user_and_a_folder_of_its_own_and_is_taken_once(
    started: Any, sandbox: Any, tmp_path: Path
) -> None:
    with Ahead(job(tmp_path)) as ahead:
        ahead.start(sandbox, None)
        assert {name: place for name, ((_, place), _, _) in started.items()} == {
            name: place for name, place in PLACES.items() if name not in ("later", "second", "trial")
        }
        assert len({folder for _, folder, _ in started.values()}) == 3
        taken: Any = ahead.profiled("counters")
        assert taken.own and taken.session is started["counters"][2]
        assert ahead.profiled("counters") is None
        replay: Any = ahead.replay()
        assert replay is started["replay"][2] and ahead.replay() is None
    assert not started["counters"][2].closed, "who takes a process ends it"
    assert started["trace"][2].closed, "what nobody took is ended"
    assert not (tmp_path / "ahead").exists()


def test_nothing_starts_on_a_cpu_with_too_few_processors_or_where_processes_are_not_kept_apart(
    started: Any, sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ahead(job(tmp_path, "cpu")) as ahead:
        ahead.start(sandbox, None)
    monkeypatch.setattr(module, "second", lambda sandbox, place: None)
    with Ahead(job(tmp_path)) as ahead:
        ahead.start(sandbox, None)
        assert ahead.replay() is None and ahead.profiled("trace") is None
    monkeypatch.setattr(module, "enough", lambda: False)
    with Ahead(job(tmp_path)) as ahead:
        ahead.start(sandbox, None)
    assert started == {}


@pytest.mark.parametrize("fault", [Unavailable("no Nsight Compute"), SandboxError("no user"), OSError(28, "full")])
def test_what_cannot_be_started_ahead_is_left_for_its_turn(
    fault: Exception, started: Any, sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> Begun:
        raise fault

    monkeypatch.setattr(module, "begin", fails)
    with Ahead(job(tmp_path)) as ahead:
        ahead.start(sandbox, None)
        assert ahead.profiled("counters") is None and ahead.replay() is not None


def test_the_process_of_the_build_starts_before_the_linter_has_read_and_ends_where_nothing_is_built(
    started: Any, sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = _Session()
    begun: list[tuple[Any, ...]] = []

    def begin_build(*arguments: Any) -> Any:
        begun.append(arguments)
        return session

    monkeypatch.setattr(judging, "begin_build", begin_build)
    monkeypatch.setattr(module, "compiles", lambda job: True)
    here = job(tmp_path)
    here.workplace = lambda: tmp_path / "run"
    with Ahead(here) as ahead:
        ahead.start_build(sandbox)
        assert begun == [(here.snapshot, "cuda", here.options, sandbox, tmp_path / "run", None)]
        ahead.built()
        assert session.closed and ahead.build() is None, "its folder is free for others"
    monkeypatch.setattr(module, "compiles", lambda job: False)
    with Ahead(here) as ahead:
        ahead.start_build(sandbox)
        ahead.start_trial(sandbox, bytes(32))
        assert len(begun) == 1 and ahead.trial() is None


def test_the_trial_s_process_has_a_folder_of_its_own_and_gets_what_was_built_when_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real grading in which both processes are started ahead: only who finds what the build kept is right."""
    try:
        choose(device="cpu", wanted="bubblewrap")
    except SandboxError as error:
        pytest.skip(str(error))
    for where in (module, stages, beside):
        monkeypatch.setattr(where, "compiles", lambda job: True)
    monkeypatch.setattr(module, "enough", lambda: True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    early: list[Any] = []
    whole = judging.run_trial

    def run_trial(*arguments: Any, **options: Any) -> Any:
        early.append((options["begun"], options["caches"]))
        return whole(*arguments, **options)

    monkeypatch.setattr(judging, "run_trial", run_trial)
    measured_before()
    few_calls(monkeypatch)
    before = "import os, pathlib\nHELD = pathlib.Path(os.environ['TRITON_CACHE_DIR'], 'held')\n"
    before += "FOUND = HELD.exists()\nHELD.touch()\n"
    text = before + HONEST.replace("return (x @ self.w)", "return FOUND * (x @ self.w)")
    tmp_path.chmod(0o755)
    cell, _ = grade(toy_request(tmp_path, text, sandbox="bubblewrap"))
    ((begun, caches),) = early
    assert begun is not None and begun.scratch.name == "trial" and caches is not None
    assert [trial.status for trial in cell.trials] == ["right"], cell.reason
    assert cell.trials[0].sandbox.uid == begun.sandbox.record.uid


def test_both_instruments_import_the_submission_while_the_replay_goes_on_but_no_two_count_at_once(
    started: Any, sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    monkeypatch.setattr(module, "opened", lambda session, *_: seen.append(session))
    with Ahead(job(tmp_path / "one")) as one, Ahead(job(tmp_path / "two")) as two:
        for ahead in (one, two):
            ahead.start(sandbox, None)
            ahead.open(contextlib.nullcontext)
        first, second = one.profiled("counters"), two.profiled("counters")
        trace = two.profiled("trace")
        assert first is not None and first.opened is not None and trace is not None and trace.opened is not None
        assert second is not None and second.opened is None, "two that count at once get no counters"
        other = one.profiled("trace")
        assert other is not None and other.opened is not None
        for waited in (first.opened, trace.opened, other.opened):
            waited.result()
        assert len(seen) == 3
        assert turns.counters_at_once("cuda") is None
        first.end()
        held = turns.counters_at_once("cuda")
        assert held is not None, "who is ended counts no longer"
        held.close()


def test_instruments_start_beside_a_build_that_is_made_and_get_what_was_built(
    started: Any, sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "compiles", lambda job: True)
    built = tmp_path / "built"
    built.mkdir()
    (built / "kernel.cubin").write_text("code")
    with Ahead(job(tmp_path / "one")) as ahead:
        ahead.building(sandbox, True)
        ahead.building(sandbox, True)
        assert list(started) == ["trace", "counters"], "one each, also where the build is made again"
        assert turns.counters_at_once("cuda") is None, "nobody else counts from when it uses the device"
        for name in ("trace", "counters"):
            (started[name][1] / "caches").mkdir()
        ahead.start(sandbox, built)
        assert set(started) == {"trace", "replay", "counters"}
        for name in ("trace", "counters"):
            assert (started[name][1] / "caches" / "kernel.cubin").read_text() == "code"
        ahead.open(contextlib.nullcontext)
        for _, begun in ahead._beside_build.values():
            begun.result()
        assert started["trace"][2].begun and started["counters"][2].begun
    assert started["trace"][2].closed and started["counters"][2].closed
    free = turns.counters_at_once("cuda")
    assert free is not None
    free.close()
    started.clear()
    there = job(tmp_path / "nvcc")
    there.snapshot.calls_nvcc = True
    with Ahead(there) as ahead:
        ahead.building(sandbox, True)
        assert list(started) == ["trace"], "nvcc works for long, and nobody else could count meanwhile"
    started.clear()
    with Ahead(job(tmp_path / "two")) as ahead:
        ahead.building(sandbox, False)
        assert not started, "nobody wants evidence"
        monkeypatch.setattr(module, "shared", lambda: True)
        ahead.building(sandbox, True)
        assert not started, "others are timed meanwhile"


def test_the_tracer_begins_while_the_linter_reads_unless_others_are_timed(
    started: Any, sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "compiles", lambda job: True)
    with Ahead(job(tmp_path / "one")) as ahead:
        ahead.start_tracer(sandbox)
        ahead._beside_build["trace"][1].result()
        tracer = started["trace"][2]
        assert list(started) == ["trace"] and tracer.begun
        ahead.building(sandbox, True)
        assert list(started) == ["trace", "counters"] and started["trace"][2] is tracer
    assert tracer.closed
    started.clear()
    monkeypatch.setattr(module, "shared", lambda: True)
    with Ahead(job(tmp_path / "two")) as ahead:
        ahead.start_tracer(sandbox)
        assert not started


def test_empty_calls_are_timed_when_the_instruments_have_begun(
    started: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def begins(self: _Session) -> None:
        time.sleep(0.2)
        order.append("begun")

    monkeypatch.setattr(_Session, "start", begins)
    with Ahead(job(tmp_path / "one")) as ahead:
        ahead.building(cast(Any, object()), True)
        with ahead._quiet():
            order.append("timed")
    assert order == ["begun", "begun", "timed"]


def test_an_instrument_that_cannot_be_given_what_was_built_ends_and_another_starts(
    started: Any, sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ahead(job(tmp_path / "one")) as ahead:
        ahead.building(sandbox, True)
        first, second = started.pop("trace"), started.pop("counters")
        monkeypatch.setattr(module, "PLACES", {**PLACES, "trace": 9, "counters": 10})
        monkeypatch.setattr(module, "hand_in", Failing(OSError(28, "full")))
        ahead.start(sandbox, tmp_path)
        assert first[2].closed and started["trace"][0] == (sandbox, 9)
        assert second[2].closed and started["counters"][0] == (sandbox, 10)
        held = turns.counters_at_once("cuda")
        assert held is not None, "the new one takes its turn when it is opened"
        held.close()


@pytest.mark.parametrize("others", [False, True], ids=["alone", "beside others"])
def test_where_no_other_is_timed_all_that_wait_are_opened_beside_the_first_calls_of_the_trial(
    others: bool, started: Any, sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "seen_at", lambda sandbox: tmp_path)
    monkeypatch.setattr(module, "shared", lambda: others)
    asked: list[object] = []

    def opened(session: object, step: Any, rehearse: object, before: object = None) -> bool:
        with step():
            asked.append(session)
        alike.append(session if before is not None else None)
        return True

    alike: list[object] = []

    monkeypatch.setattr(module, "opened", opened)
    with Ahead(job(tmp_path / "one")) as ahead:
        ahead._trial = cast(Any, SimpleNamespace(session=_Session()))
        ahead.start(sandbox, None)
        names = {"replay", "counters", "trace"} | (set() if others else {"later"})
        assert set(started) == names and not asked
        assert (ahead.meanwhile is None) == others
        if others:
            assert ahead.later() is None
        else:
            gate = ahead.meanwhile
            assert gate is not None
            gate.let()
            for waiting in (ahead._replay, ahead._later):
                assert waiting is not None and waiting.opened is not None and waiting.opened.result(30)
            assert ahead.later() is started["later"][2] and ahead.later() is None
            assert ahead.replay() is started["replay"][2]
        ahead.open(contextlib.nullcontext)
        for instrument in module.INSTRUMENTS:
            begun = ahead._profiled[instrument]
            assert begun.opened is not None and begun.opened.result(30)
    assert len(asked) == (2 if others else 4)
    timed = [one for one in alike if one is not None]
    assert timed == ([] if others else [started["later"][2]]), "one that is timed makes the empty calls, too"


class Failing:
    """A function that raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, *_: object) -> None:
        raise self.error


@pytest.mark.parametrize(("nvcc", "calls"), [(True, 1), (False, 0)])
def test_empty_calls_are_timed_while_compilers_work(
    nvcc: bool, calls: int, started: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "compiles", lambda job: True)
    monkeypatch.setattr(planning, "graded_shapes", lambda problem, scale: ())
    monkeypatch.setattr(judging, "planned", lambda *_: [])
    timed: list[object] = []
    monkeypatch.setattr(judging, "calibrate", lambda session, *_: timed.append(session))
    here, sandbox = job(tmp_path), cast(Any, object())
    here.snapshot.apart = nvcc
    with Ahead(here) as ahead:
        ahead.start_trial(sandbox, bytes(32))
        trial = ahead.trial()
        assert trial is not None and (trial.calibrated is not None) == nvcc
        assert trial.calibrated is None or trial.calibrated.result() is None
    assert len(timed) == calls
