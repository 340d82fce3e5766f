"""Builds: a submission is called so that it compiles, and whether its results are right is not looked at.

What Triton alone compiles is collected first: a process that launches nothing is called once a shape, and its compilers
work beside one another while others use the device (`grader.candidate.collecting`).

Whatever else compiles does so in its first call. The process that builds must not use the device while another is
timed, but nvcc does not use it. So when the compilers that it started have worked for a while, the process itself is
stopped, the turn is given back, and both go on when the compilers are done and the device is free again.

Tuning does use it, for minutes where each of a submission's shapes and groups is tuned. Nothing is timed in a build, so
one that has held the device for a while is stopped too when others wait, and goes on after them. What it had launched
before gets a moment to end.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from grader.deck.cases import CaseSpec
from grader.judge import plan as planning
from grader.judge.answers import Ended, expect
from grader.judge.ticking import BUILDING
from grader.judge.trial import Trial
from grader.sandbox.supervise import ChildGone
from kbh_lint.problems import Shape

__all__ = ["COMPILERS", "Compiled", "Stoppable", "Yielding", "collected", "compiled", "lent"]

COMPILERS = frozenset({
    "as", "c++", "cc", "cc1", "cc1plus", "cicc", "clang", "clang++", "collect2", "cudafe++", "fatbinary", "g++", "gcc",
    "ld", "lld", "ninja", "nvcc", "nvlink", "ptxas", "x86_64-linux-gnu-g++",
})  # fmt: skip
POLL_SECONDS = 0.2
JOIN_SECONDS = 2.0  # an interrupt does not wait for a turn
PART_SECONDS = 15.0  # of a build, after which others go first
LAUNCHED_SECONDS = 1.0  # in which what a stopped process had launched ends: tuners wait for each candidate
LENT_AFTER = 10  # polls in a row: what Triton has assembled takes less, and what is lent may have to be waited for


class Stoppable(Protocol):
    """A process of a submission, and those that it started."""

    def processes(self) -> list[int]:
        """The living ones, by number."""

    def stop(self) -> bool:
        """Stops the process itself, and nothing that it started; returns whether that was possible."""

    def go_on(self) -> None:
        """Lets the process run again; the time between does not count as its own."""


@dataclass(frozen=True, slots=True)
class Yielding:
    """Whether anybody waits for the device, and how it is held again after all who do."""

    wanted: Callable[[], bool]
    after: Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Compiled:
    """How a build went: why this machine cannot run the submission, or what ended it before its last call, and whether
    that was the limit of time.
    """

    refused: str = ""
    ended: str = ""
    late: bool = False


def compiled(
    trial: Trial, shapes: Sequence[Shape], calls: int, held: Callable[[], AbstractContextManager[None]],
    yielding: Yielding | None = None,
) -> Compiled:  # fmt: skip
    """Calls the submission once or more for each shape inside `held()`, whether its results are right or not; only its
    compilers work outside of `held()`. `yielding` lets others use the device between the parts of a long build.
    """
    try:
        trial.started([])
        with lent(trial.session.process, held, yielding):
            for shape in shapes:
                _called(trial, shape, calls)
    except Ended as end:
        return Compiled(refused=str(end)) if end.status == "refused" else Compiled(ended=str(end))
    except ChildGone as gone:
        return Compiled(ended=str(gone), late=gone.late)
    return Compiled()


def collected(
    trial: Trial, shapes: Sequence[Shape], held: Callable[[], AbstractContextManager[None]], seconds: float
) -> Compiled:  # fmt: skip
    """Calls a process that collects kernels once for each shape inside `held()`, then waits at most `seconds` for its
    compilers; only when these take longer is the result `late`.
    """
    try:
        trial.started([])
        with held():
            for shape in shapes:
                _called(trial, shape, 1)
    except Ended as end:
        return Compiled(refused=str(end)) if end.status == "refused" else Compiled(ended=str(end))
    except ChildGone as gone:
        return Compiled(ended=str(gone))
    trial.say(f"{BUILDING}: Triton's compilers")
    try:
        expect(trial.session.compiled(seconds), "when its kernels were compiled")
    except ChildGone as gone:
        return Compiled(ended=str(gone), late=gone.late)
    return Compiled()


def _called(trial: Trial, shape: Shape, calls: int) -> None:
    trial.say(f"{BUILDING} for {shape.label}")
    case = trial.case(shape, CaseSpec("build", "nominal"))
    rounds = min(calls, planning.LEAST_ROUNDS)
    expect(trial.session.load(case.binding, [case.state], rounds=rounds), f"at {shape.label}")
    for number in range(calls):
        called = trial.session.call(number % rounds, case.inputs, f"run at {shape.label}")
        expect(called.answer, f"at {shape.label}")


@contextlib.contextmanager
def lent(
    process: Stoppable, held: Callable[[], AbstractContextManager[None]], yielding: Yielding | None = None
) -> Iterator[None]:
    """Holds the device inside the block, except while the process is stopped: when its compilers have worked for a
    while, and, with `yielding`, when others wait and a part of the build has ended.
    """
    over, lender = threading.Event(), _Lender(process, held, yielding)
    with lender:
        thread = threading.Thread(target=lender.watch, args=(over,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(JOIN_SECONDS)


class _Lender:
    def __init__(
        self, process: Stoppable, held: Callable[[], AbstractContextManager[None]], yielding: Yielding | None
    ) -> None:
        self._process, self._held, self._yielding = process, held, yielding
        self._since = 0.0  # when the device was taken last
        self._turn: AbstractContextManager[None] | None = None
        self._guard, self._left = threading.Lock(), False

    def __enter__(self) -> None:
        self._take()

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._left = True  # a turn that is still waited for is given back when it comes
            self._give()

    def watch(self, over: threading.Event) -> None:
        """Gives the turn up and takes it again where that is worth it, until `over` is set."""
        polls = 0
        while not over.wait(POLL_SECONDS):
            polls = polls + 1 if self._compiling() else 0
            if polls >= LENT_AFTER:
                held = self._held
            elif self._yielding is not None and self._long() and self._yielding.wanted():
                held = self._yielding.after
            else:
                continue
            if not self._process.stop():
                self._since = time.monotonic()  # it is not asked again at once
                continue
            try:
                if polls < LENT_AFTER:
                    over.wait(LAUNCHED_SECONDS)
                self._give()
                while self._compiling() and not over.wait(POLL_SECONDS):
                    pass
                self._take(held)
            finally:
                self._process.go_on()
            polls = 0

    def _long(self) -> bool:
        return time.monotonic() - self._since >= PART_SECONDS

    def _take(self, held: Callable[[], AbstractContextManager[None]] | None = None) -> None:
        turn = (held or self._held)()
        turn.__enter__()
        self._since = time.monotonic()
        with self._guard:
            self._turn = turn
            if self._left:
                self._give()

    def _give(self) -> None:
        if self._turn is not None:
            turn, self._turn = self._turn, None
            turn.__exit__(None, None, None)

    def _compiling(self) -> bool:
        return any(_name(number) in COMPILERS for number in self._process.processes())


def _name(number: int) -> str:
    try:
        return Path(f"/proc/{number}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # it has ended
        return ""
