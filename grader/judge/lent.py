"""A turn that is lent to others for as long as compilers work, and between the parts of a long build.

Many submissions compile in their first call. The process that builds one must not use the device while another is
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
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["COMPILERS", "Stoppable", "Yielding", "lent"]

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
        """Stops the process itself, and nothing that it started; whether that was possible."""

    def go_on(self) -> None:
        """Lets it go on; the time between does not count as its own."""


@dataclass(frozen=True, slots=True)
class Yielding:
    """Whether anybody waits for the device, and how it is held again after all who do."""

    wanted: Callable[[], bool]
    after: Callable[[], AbstractContextManager[None]]


@contextlib.contextmanager
def lent(
    process: Stoppable, held: Callable[[], AbstractContextManager[None]], yielding: Yielding | None = None
) -> Iterator[None]:
    """Holds the device within, except while compilers of the process work for a while and it is stopped itself, and,
    with `yielding`, while others use it who waited for a part of the build to end.
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
        """Lends the turn where that is worth it, until all is over."""
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
