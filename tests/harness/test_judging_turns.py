"""The turns of a device: in order, gradings before practice but not for ever, and who dies is in nobody's way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from grader.judge import turns
from grader.judge.turns import practising, turn

WAITER = """
import sys, time
from contextlib import nullcontext
from grader.judge import turns
from grader.judge.turns import practising, turn
name, practice, began, out = sys.argv[1:]
kind = practising(time.monotonic() - float(practice)) if practice else nullcontext()
if began:
    turns._GRADINGS.append(time.monotonic() - abs(float(began)))
with kind, turn("cpu", lambda text: print(text, flush=True), afresh=began.startswith("-")):
    with open(out, "a") as file:
        file.write(name + "\\n")
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KBH_LOCK_DIR", str(tmp_path))
    return tmp_path


class Waiters:
    """Processes that wait for a turn one after another, each known to wait before the next one starts."""

    def __init__(self, folder: Path) -> None:
        self.out, self.processes = folder / "order", dict[str, subprocess.Popen[str]]()

    def add(self, name: str, *, practice: float | None = None, began: float | None = None) -> str:
        """`practice` is how many seconds ago the practice run came, `began` when the grading began whose turn this is;
        negative, it has had a part and is due afresh. Returns what it is told.
        """
        when = ["" if seconds is None else str(seconds) for seconds in (practice, began)]
        argv = [sys.executable, "-c", WAITER, name, *when, str(self.out)]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.processes[name] = process
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def order(self) -> list[str]:
        for process in self.processes.values():
            process.communicate(timeout=30)
        return self.out.read_text().splitlines()


@contextmanager
def waiters(folder: Path) -> Iterator[Waiters]:
    with ExitStack() as stack:
        made = Waiters(folder)
        stack.callback(lambda: [process.kill() for process in made.processes.values()])
        yield made


def test_who_waits_gets_the_device_in_the_order_in_which_they_came(own_folder: Path) -> None:
    with waiters(own_folder) as those:
        with turn("cpu"):
            told = [those.add(name) for name in ("first", "second", "third")]
        assert those.order() == ["first", "second", "third"]
    assert told[0] == "waiting for another grading that is being timed on this CPU"
    assert told[2].endswith("; 2 wait before this one")


def test_the_grading_that_began_first_gets_each_of_its_turns_first_unless_it_had_a_part_of_a_long_build(
    own_folder: Path,
) -> None:
    with waiters(own_folder) as those:
        with turn("cpu"):
            those.add("another", began=1)
            those.add("a part of a long build", began=-60)
            those.add("the first", began=30)
        assert those.order() == ["the first", "another", "a part of a long build"]


def test_a_grading_goes_before_the_practice_that_waits(own_folder: Path) -> None:
    with waiters(own_folder) as those:
        with practising(), turn("cpu"):
            told = those.add("practice", practice=0)
            those.add("more practice", practice=0)
            those.add("a grading")
            those.add("another grading")
        assert those.order() == ["a grading", "another grading", "practice", "more practice"]
    assert told == "waiting for a turn on this CPU"


def test_practice_that_has_waited_for_long_goes_before_gradings_that_come_later(own_folder: Path) -> None:
    with waiters(own_folder) as those:
        with turn("cpu"):
            those.add("practice", practice=turns.HEAD_START - 1)
            those.add("patient practice", practice=turns.HEAD_START + 3600)
            those.add("a grading")
        assert those.order() == ["patient practice", "a grading", "practice"]


@pytest.mark.parametrize("who", ["first", "second"])
def test_one_that_is_killed_while_it_waits_is_in_nobodys_way(own_folder: Path, who: str) -> None:
    with waiters(own_folder) as those:
        with turn("cpu"):
            for name in ("first", "second", "third"):
                those.add(name)
            those.processes[who].kill()
            those.processes[who].wait()
        assert those.order() == [name for name in ("first", "second", "third") if name != who]
    assert not list(own_folder.glob("*.ticket"))


def test_what_others_leave_in_the_folder_is_nobodys_ticket(own_folder: Path) -> None:
    with turn("cpu"):
        stem = next(own_folder.glob("*.lock")).stem
    earliest = f"{stem}-{'0' * 20}-"
    (own_folder / f"{earliest}00000000.ticket").touch()
    os.mkfifo(own_folder / f"{earliest}00000001.ticket")
    (own_folder / f"{earliest}00000002.ticket").symlink_to(own_folder / "order")
    (own_folder / f"{earliest}00000003.ticket").mkdir()
    told: list[str] = []
    with turn("cpu", told.append):
        assert told == []
    assert not (own_folder / f"{earliest}00000000.ticket").exists(), "a left-over is taken away"


def test_where_no_ticket_can_be_made_there_is_still_a_lock(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with turn("cpu"):
        pass
    monkeypatch.setattr(turns._Line, "_made", lambda self, due: ("", None))
    with waiters(own_folder) as those:
        with turn("cpu"):
            those.add("one that comes later")
        assert those.order() == ["one that comes later"]
