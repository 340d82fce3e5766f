"""Bounds on what one file may cost."""

from __future__ import annotations

import atexit
import gc
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from functools import cache
from types import FrameType
from typing import ParamSpec, TypeVar

from kbh_lint.base.records import dataclass

MEMORY_BYTES = 4 * 1024**3
HOST_STEPS = 1_200_000
KERNEL_STEPS = 300_000
NUMBER_STEPS = 400_000
YOUNG = 1_000_000  # objects that are made before they are looked through for garbage
ROOM = 70_000  # places of one stack: half a MiB, of which a page is there once it is touched
_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(slots=True)
class Budget:
    """Steps that are left to all parts of one file together; each part has a bound of its own besides."""

    left: int

    def grant(self, most: int) -> int:
        """How many of the `most` steps that a part of the analysis may need it is given."""
        return max(min(most, self.left), 0)

    def take(self, steps: int) -> None:
        """Subtracts the steps that a part of the analysis took."""
        self.left -= max(steps, 0)


@dataclass(slots=True)
class Budgets:
    """What one file may cost in steps: its host code on all paths, the analyses of its kernels, and the evaluations of
    its kernels on numbers. Of 260 files the dearest takes a tenth of each."""

    host: Budget = field(default_factory=lambda: Budget(HOST_STEPS))
    kernels: Budget = field(default_factory=lambda: Budget(KERNEL_STEPS))
    numbers: Budget = field(default_factory=lambda: Budget(NUMBER_STEPS))


class TimeUp(BaseException):
    """The time for a file is over. Not an Exception: no analysis can swallow it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TimeUp inside the block after `seconds`; 0 is no limit.

    Works in the main thread of a POSIX process; elsewhere the block simply runs (workers are also killed from outside).
    """
    possible = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if seconds <= 0 or not possible:
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Collects garbage more rarely inside the block: imports and an analysis make many objects and few cycles.

    The end of a block may be followed by a collection, so one that is around all files of a run costs less than one
    around each. Runs of submissions and of kernels take themselves apart when they end, which leaves a collection in
    some hundred files. Measured on 156 files: a third less time, and no more memory.
    """
    before = gc.get_threshold()
    gc.set_threshold(YOUNG, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@cache
def leave_garbage() -> None:
    """Makes garbage collection rare from now on, and leaves out the one at the end of the process: for a command
    that is all that its process does. A block of `fewer_collections` around it would end with one. Together a
    seventh of what one file costs from a cold start."""
    gc.set_threshold(YOUNG, 20, 50)
    atexit.register(gc.freeze)


def with_room(work: Callable[_P, _T], *args: _P.args, **named: _P.kwargs) -> _T:
    """What `work` gives for these arguments, called with room for the frames of all that it calls.

    CPython keeps frames in chunks of 16 KiB, and has the system map one whenever a call goes past the end of another
    and unmap it when that call returns: where what nests deeply calls on either side of an end, that is at each call.
    This function says that it needs ROOM places itself, and what it calls lies in the chunk that this takes. Measured
    on 78 files: a third of the page faults, and two of a hundred parts of the time.
    """
    return work(*args, **named)


with_room.__code__ = with_room.__code__.replace(co_stacksize=ROOM)


@contextmanager
def memory_limit() -> Iterator[None]:
    """Caps this process's address space inside the block: a hostile file gets a MemoryError, not the machine."""
    try:
        import resource

        before = resource.getrlimit(resource.RLIMIT_AS)
        wanted = MEMORY_BYTES if before[1] == resource.RLIM_INFINITY else min(MEMORY_BYTES, before[1])
        tighter = before[0] == resource.RLIM_INFINITY or before[0] > wanted
        if tighter:
            resource.setrlimit(resource.RLIMIT_AS, (wanted, before[1]))
    except (ImportError, OSError, ValueError):
        tighter = False
    try:
        yield
    finally:
        if tighter:
            resource.setrlimit(resource.RLIMIT_AS, before)
