"""Which processors work that is not timed may use, so that it takes none from what is timed beside it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache

__all__ = ["LEAST_CPUS", "apart", "building", "enough", "kept_away", "set_free", "share", "shared", "timed"]

LEAST_CPUS = 4  # with fewer, two at a time would take from each other
LEAST_SHARED = 8  # with fewer, none are left to what is timed alone while others are graded


_OTHERS = _ON_GPUS = False


def share(*, on_gpus: bool) -> None:
    """Declares that other gradings of this command run at the same time. Where they are timed on GPUs and there are
    enough processors, this process and what it starts from now on run on `apart()`, except for what is `timed`.
    Gradings on a CPU keep all processors.
    """
    global _OTHERS, _ON_GPUS
    _OTHERS, _ON_GPUS = True, on_gpus
    if _leaves_some():
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, apart())


def shared() -> bool:
    """Whether others may be timed while this process builds."""
    return _OTHERS


def enough() -> bool:
    """Whether something else may run beside what is timed."""
    return len(_every()) >= LEAST_CPUS


@cache
def _every() -> tuple[int, ...]:
    """The processors of this process, before a thread of it was kept away from some."""
    return tuple(sorted(os.sched_getaffinity(0)))


def _leaves_some() -> bool:
    return _ON_GPUS and len(_every()) >= LEAST_SHARED


def apart() -> set[int]:
    """The processors that builds use: half of this machine's, or three quarters where several gradings share it and the
    rest is left to what is timed; all of them where there are too few to share.
    """
    every = _every()
    return set(every[len(every) // (4 if _leaves_some() else 2) :]) if enough() else set(every)


def building(timed: bool) -> contextlib.AbstractContextManager[None]:
    """A context for starting the processes of a build: on `apart()` where this grading (`timed`) or another is being
    timed meanwhile.
    """
    return kept_away() if timed or shared() else contextlib.nullcontext()


@contextlib.contextmanager
def kept_away() -> Iterator[None]:
    """Inside the block this thread, and what it starts, run on `apart()`."""
    before, narrow = os.sched_getaffinity(0), apart()
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, narrow)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, before)


@contextlib.contextmanager
def timed(processes: Callable[[], Iterable[int]]) -> Iterator[None]:
    """Where other gradings run at the same time, gives this thread and the processes that it times processors of their
    own inside the block.

    Where a host takes a processor away, for a few milliseconds at a time, the judge's clock counts that.
    """
    if not _leaves_some():
        yield
        return
    before, alone = os.sched_getaffinity(0), set(_every()) - apart()
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, alone)
    _move(processes(), alone)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, before)


def set_free(processes: Iterable[int]) -> None:
    """Lets processes that were kept away, with all their threads, run on every processor of ours."""
    if not shared():
        _move(processes, _every())


def _move(processes: Iterable[int], where: Iterable[int]) -> None:
    for number in processes:
        with contextlib.suppress(OSError):  # it has ended, or is not ours to move
            for thread in os.listdir(f"/proc/{number}/task"):
                os.sched_setaffinity(int(thread), where)
