"""One grading at a time on a device: the others wait, are told so, and go on when the holder ends in whatever way."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from grading import toy_request, trial

from grader.grading.grade import grade
from grader.grading.linting import lint_snapshot
from grader.judge import compiling, turns
from grader.judge import judging as judge
from grader.judge.judging import Held
from grader.judge.trial import Trial
from grader.judge.turns import alone, device_key, together, turn
from grader.record.cell import TrialResult
from grader.score import peaks
from grader.wire.frames import Frame, Kind

HOLDER = """
import subprocess, sys
from grader.judge import compiling, turns
with turns.turn("cpu"):
    null = subprocess.DEVNULL
    child = subprocess.Popen(["sleep", "60"], stdin=null, stdout=null)
    print(child.pid, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KBH_LOCK_DIR", str(tmp_path))
    return tmp_path


def lock_of(folder: Path) -> Path:
    (found,) = folder.glob("kbh-turn-*.lock")
    return found


def is_free(folder: Path) -> bool:
    fd = os.open(lock_of(folder), os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)


def holder(folder: Path) -> tuple[subprocess.Popen[str], int]:
    """A process that holds the CPU, and the number of one that it started and that outlives it."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_a_device_is_held_for_as_long_as_the_block_and_no_longer(own_folder: Path) -> None:
    told: list[str] = []
    with turn("cpu", told.append):
        assert not is_free(own_folder)
        with turn("cpu", told.append):
            pass
        assert not is_free(own_folder), "an inner turn of the same process does not let go"
    assert is_free(own_folder) and told == []
    with pytest.raises(RuntimeError), turn("cpu"):
        raise RuntimeError
    assert is_free(own_folder)


def test_two_threads_share_the_lock_of_their_process_until_both_have_ended(own_folder: Path) -> None:
    inside, go = threading.Event(), threading.Event()

    def other() -> None:
        with turn("cpu"):
            inside.set()
            go.wait(20)

    thread = threading.Thread(target=other)
    with turn("cpu"):
        thread.start()
        assert inside.wait(20)
    assert not is_free(own_folder)
    go.set()
    thread.join()
    assert is_free(own_folder)


def test_calls_by_which_nothing_is_timed_share_the_device_and_a_turn_waits_for_all_of_them(own_folder: Path) -> None:
    order: list[str] = []
    both, go = threading.Barrier(3, timeout=20), threading.Event()

    def builds() -> None:
        with together("cpu"):
            both.wait()
            go.wait(20)
            order.append("built")

    def timed() -> None:
        with alone("cpu", lambda text: waits.set()):
            order.append("timed")

    waits = threading.Event()
    threads = [threading.Thread(target=builds), threading.Thread(target=builds)]
    for one in threads:
        one.start()
    both.wait()  # two of them at once
    threads.append(threading.Thread(target=timed))
    threads[-1].start()
    assert waits.wait(20)
    late = threading.Thread(target=lambda: order.append("late") if _entered() else None)
    threads.append(late)
    late.start()
    go.set()
    for one in threads:
        one.join(20)
    assert order == ["built", "built", "timed", "late"] and is_free(own_folder)


def _entered() -> bool:
    """A build that comes after a grading asked for its turn goes after it."""
    with together("cpu"):
        return True


def test_practice_has_the_device_alone_in_builds_too(own_folder: Path) -> None:
    standing: list[str] = []
    with turns.practising(tell=standing.append), together("cpu"):
        assert turns._HELD and not is_free(own_folder)
    assert standing == ["asked", "held", "free"]


@pytest.mark.parametrize("end", ["by itself", "killed"])
def test_another_process_is_waited_for_until_it_ends_in_whatever_way(own_folder: Path, end: str) -> None:
    process, child = holder(own_folder)
    told: list[str] = []
    waits = threading.Event()

    def tell(text: str) -> None:
        told.append(text)
        waits.set()

    def release() -> None:
        waits.wait(20)
        if end == "killed":
            process.kill()
        else:
            assert process.stdin is not None
            process.stdin.write("go on\n")
            process.stdin.flush()

    helper = threading.Thread(target=release)
    helper.start()
    try:
        with turn("cpu", tell):
            assert not is_free(own_folder)
    finally:
        helper.join()
        process.kill()
        process.communicate()
        os.kill(child, signal.SIGKILL)
    assert told[0] == "waiting for another grading that is being timed on this CPU"
    assert len(told) == 2 and told[1].startswith("waited ") and told[1].endswith(" s for another grading")


def test_two_devices_do_not_wait_for_one_another(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "device_key", lambda device: f"gpu {device}")
    told: list[str] = []
    with turn("cuda:0", told.append), turn("cuda:1", told.append):
        assert len(list(own_folder.glob("kbh-turn-*.lock"))) == 2 and told == []


def test_where_no_lock_can_be_had_the_grading_goes_on_and_says_so(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with turn("cpu"):
        path = lock_of(own_folder)
    path.unlink()
    for odd in ("link", "pipe", "no folder"):
        if odd == "link":
            path.symlink_to(own_folder / "elsewhere")
        elif odd == "pipe":
            os.mkfifo(path)
        else:
            monkeypatch.setenv("KBH_LOCK_DIR", str(own_folder / "nowhere"))
        told: list[str] = []
        with turn("cpu", told.append):
            assert len(told) == 1 and "no lock can be had" in told[0], odd
        path.unlink(missing_ok=True)
    assert not (own_folder / "elsewhere").exists()


def test_a_lock_file_can_be_locked_by_everybody_whatever_the_mask_was(own_folder: Path) -> None:
    before = os.umask(0o077)
    try:
        with turn("cpu"):
            assert lock_of(own_folder).stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)


def test_a_cpu_is_one_device_whatever_it_is_called() -> None:
    assert device_key("cpu") == device_key("cpu:0") == "cpu"


def test_trials_replays_and_the_measurement_of_a_cpu_have_their_turn_and_the_linter_does_not(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    held: list[str] = []
    lint, measured = lint_snapshot, peaks.Measured(peaks.machine("cpu"), 20.0, {"fp32": 0.1})

    def seen(name: str) -> None:
        held.append(f"{name} {'free' if not list(own_folder.glob('*.lock')) or is_free(own_folder) else 'held'}")

    def run(*_: object, master: bytes, held: Held, **__: object) -> TrialResult:
        seen("start")
        with held():
            seen("trial")
        return replace(trial(), master=master.hex(), commitment=judge.commitment(master))

    def stub(name: str, value: object) -> Callable[..., object]:
        return lambda *a, **k: seen(name) or (value(*a, **k) if callable(value) else value)

    monkeypatch.setattr(judge, "run_trial", run)

    def again(*_: object, held: Held, **__: object) -> tuple[str, ...]:
        with held():
            seen("replay")
        return ()

    monkeypatch.setattr(judge, "replay", again)
    monkeypatch.setattr("grader.grading.course.lint_snapshot", stub("lint", lint))
    monkeypatch.setattr(peaks, "load", lambda *a: None)
    monkeypatch.setattr(peaks, "store", lambda *a: None)
    monkeypatch.setattr(peaks, "measure", stub("peaks", measured))
    made, _ = grade(toy_request(tmp_path))
    assert made.outcome == "accepted"
    assert held == ["peaks held", "lint free", "start free", "trial held", "replay held"]


def test_the_calls_of_a_build_have_their_turn_and_its_import_does_not(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def look(name: str) -> Callable[..., None]:
        return lambda *_: seen.append(f"{name} {'held' if turns._HELD else 'free'}")

    monkeypatch.setattr(Trial, "started", look("import"))
    monkeypatch.setattr(compiling, "_called", look("call"))
    trial: Any = Trial.__new__(Trial)
    trial.session = SimpleNamespace(process=SimpleNamespace(processes=list))
    shapes: Any = ["a shape", "another"]
    assert compiling.compiled(trial, shapes, 1, lambda: turn("cpu")) == compiling.Compiled()
    assert seen == ["import free", "call held", "call held"] and is_free(own_folder)


def test_what_is_collected_is_compiled_without_a_turn(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def look(name: str) -> Callable[..., Frame]:
        def looked(*_: object) -> Frame:
            seen.append(f"{name} {'held' if turns._HELD else 'free'}")
            return Frame(Kind.READY, 0)

        return looked

    monkeypatch.setattr(Trial, "started", look("import"))
    monkeypatch.setattr(compiling, "_called", look("call"))
    trial: Any = Trial.__new__(Trial)
    trial.session, trial.say = SimpleNamespace(compiled=look("compilers")), lambda text: None
    shapes: Any = ["a shape", "another"]
    assert compiling.collected(trial, shapes, lambda: turn("cpu"), 9.0) == compiling.Compiled()
    assert seen == ["import free", "call held", "call held", "compilers free"] and is_free(own_folder)
