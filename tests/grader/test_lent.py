"""A turn is lent to others while compilers work, and the process that waits for them is stopped meanwhile."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from grader.judge import compiling as lending
from grader.judge import turns
from grader.judge.turns import alone
from grader.sandbox.supervise import Child


class Process:
    """Stands for a process: `compilers` work below it while that is set."""

    def __init__(self) -> None:
        self.compilers = False
        self.events: list[str] = []

    def processes(self) -> list[int]:
        return [1] if self.compilers else []

    def stop(self) -> bool:
        self.events.append("stop")
        return True

    def go_on(self) -> None:
        self.events.append("go on")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        self.events.append("take")
        try:
            yield
        finally:
            self.events.append("give")

    def until(self, *events: str) -> None:
        deadline = time.monotonic() + 20
        while self.events != list(events):
            assert time.monotonic() < deadline, self.events
            time.sleep(0.005)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    monkeypatch.setattr(lending, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(lending, "_name", lambda _: "nvcc")
    return Process()


def test_the_turn_is_given_back_while_compilers_work_and_the_process_goes_on_only_with_it(process: Process) -> None:
    with lending.lent(process, process.held):
        process.compilers = True
        process.until("take", "stop", "give")
        process.compilers = False
        process.until("take", "stop", "give", "take", "go on")
    process.until("take", "stop", "give", "take", "go on", "give")


def test_what_compiles_for_a_moment_keeps_the_turn(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "LENT_AFTER", 10**6)
    with lending.lent(process, process.held):
        process.compilers = True
        time.sleep(0.1)
    assert process.events == ["take", "give"]


def test_a_long_build_lets_those_who_wait_go_before_its_next_part(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lending, "PART_SECONDS", 0.05)
    monkeypatch.setattr(lending, "LAUNCHED_SECONDS", 0.01)
    waits = threading.Event()

    @contextlib.contextmanager
    def after() -> Iterator[None]:
        process.events.append("after the others")
        waits.clear()
        yield
        process.events.append("give")

    with lending.lent(process, process.held, lending.Yielding(waits.is_set, after)):
        time.sleep(0.2)
        assert process.events == ["take"], "nobody waits"
        waits.set()
        process.until("take", "stop", "give", "after the others", "go on")
    process.until("take", "stop", "give", "after the others", "go on", "give")


def test_a_short_part_of_a_build_is_not_interrupted(process: Process) -> None:
    with lending.lent(process, process.held, lending.Yielding(lambda: True, process.held)):
        time.sleep(0.1)
    assert process.events == ["take", "give"]


def test_a_process_that_cannot_be_stopped_keeps_the_turn(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "PART_SECONDS", 0.0)
    monkeypatch.setattr(process, "stop", lambda: False)
    with lending.lent(process, process.held, lending.Yielding(lambda: True, process.held)):
        time.sleep(0.1)
    assert process.events == ["take", "give"]


def test_an_end_does_not_wait_for_a_turn_which_is_given_back_when_it_comes(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lending, "JOIN_SECONDS", 0.1)
    other = threading.Lock()

    @contextlib.contextmanager
    def held() -> Iterator[None]:
        with other, process.held():
            yield

    with lending.lent(process, held):
        process.compilers = True
        process.until("take", "stop", "give")
        other.acquire()
        process.compilers = False
    assert process.events == ["take", "stop", "give"]
    other.release()
    process.until("take", "stop", "give", "take", "give", "go on")


def test_two_threads_of_a_process_do_not_hold_a_device_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("KBH_LOCK_DIR", str(tmp_path_factory.mktemp("locks")))
    inside, seen = threading.Event(), list[int]()

    def other() -> None:
        with alone("cpu"):
            seen.append(sum(turns._HELD.values()))
            inside.set()

    thread = threading.Thread(target=other)
    with alone("cpu"):
        thread.start()
        assert not inside.wait(0.2)
    thread.join(20)
    assert seen == [1]


def test_a_thread_that_waits_for_another_of_its_process_wants_the_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("KBH_LOCK_DIR", str(tmp_path_factory.mktemp("locks")))

    def other() -> None:
        with alone("cpu"):
            pass

    thread = threading.Thread(target=other)
    with alone("cpu"):
        assert not turns.wanted("cpu")
        thread.start()
        deadline = time.monotonic() + 20
        while not turns.wanted("cpu"):
            assert time.monotonic() < deadline
    thread.join(20)
    assert not turns.wanted("cpu")


def test_seconds_for_which_a_process_is_kept_from_running_are_not_its_own() -> None:
    child = Child.__new__(Child)
    child._stopped, child._idle, child._closed, child._main = None, 0.0, False, 0
    child._sandbox, child._process = SimpleNamespace(alive=lambda _: []), SimpleNamespace(pid=0)  # type: ignore[assignment]
    assert not child.stop(), "nothing lives there"
    child._stopped = time.monotonic() - 5
    assert 4.9 < child._stood_still() < 6
    child.go_on()
    assert child._stopped is None and 4.9 < child._idle < 6 and child._stood_still() == child._idle
