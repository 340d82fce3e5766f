"""A turn that is lent to others for as long as compilers work.

Many submissions compile in their first call. The process that builds one must not use the device while another is
timed, but nvcc does not use it. So when the compilers that it started have worked for a while, the process itself is
stopped, the turn is given back, and both go on when the compilers are done and the device is free again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

__all__ = ["COMPILERS", "Stoppable", "lent"]

COMPILERS = frozenset({
    "as", "c++", "cc", "cc1", "cc1plus", "cicc", "clang", "clang++", "collect2", "cudafe++", "fatbinary", "g++", "gcc",
    "ld", "lld", "ninja", "nvcc", "nvlink", "ptxas", "x86_64-linux-gnu-g++",
})  # fmt: skip
POLL_SECONDS = 0.2
JOIN_SECONDS = 2.0  # an interrupt does not wait for a turn
LENT_AFTER = 10  # polls in a row: what Triton has assembled takes less, and what is lent may have to be waited for


class Stoppable(Protocol):
    """A process of a submission, and those that it started."""

    def processes(self) -> list[int]:
        """The living ones, by number."""

    def stop(self) -> bool:
        """Stops the process itself, and nothing that it started; whether that was possible."""

    def go_on(self) -> None:
        """Lets it go on; the time between does not count as its own."""


@contextlib.contextmanager
def lent(process: Stoppable, held: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Holds the device within, except while compilers of the process work for a while and it is stopped itself."""
    over, lender = threading.Event(), _Lender(process, held)
    with lender:
        thread = threading.Thread(target=lender.watch, args=(over,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(JOIN_SECONDS)


class _Lender:
    def __init__(self, process: Stoppable, held: Callable[[], AbstractContextManager[None]]) -> None:
        self._process, self._held = process, held
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
            if polls < LENT_AFTER or not self._process.stop():
                continue
            try:
                self._give()
                while self._compiling() and not over.wait(POLL_SECONDS):
                    pass
                self._take()
            finally:
                self._process.go_on()
            polls = 0

    def _take(self) -> None:
        turn = self._held()
        turn.__enter__()
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
