"""What a clock is, the one of a CPU, and the one that measures nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Protocol, TypeVar

import torch

from grader.candidate.clock.outside import Steps

T = TypeVar("T")
MOST_FLUSH = 64 << 20  # bytes; some hosts report the cache of a whole socket
LEAST_FLUSH = 8 << 20
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


class Clock(Protocol):
    """Times single calls and runs batches. `captured` says why a batch runs call by call; empty when it does not."""

    captured: str

    def canary(self) -> float:
        """The share of a small read after a flush that comes from memory; 0 where nobody looks."""
        ...

    def timed(self, call: Callable[[], Steps[T]]) -> Steps[tuple[T, float, bool]]:
        """(what the call returned, its seconds, whether it waited for the device)."""
        ...

    def ungated(self, call: Callable[[], Steps[T]]) -> Steps[tuple[T, float, bool]]:
        """As `timed`, for a device that waits for the call: the host's launches count."""
        ...

    def prepare(self, calls: Sequence[Callable[[], Steps[None]]]) -> Steps[None]:
        """Takes the calls of the next batch; they may be run here once, on values that do not count."""
        ...

    def run(self) -> Steps[None]:
        """Runs the prepared calls in order and returns when the device has finished."""
        ...


class Untimed:
    """Runs calls as they are, for checks that measure nothing."""

    captured = ""

    def __init__(self, wait: Callable[[], None]) -> None:
        self._wait = wait
        self._calls: Sequence[Callable[[], Steps[None]]] = ()

    def canary(self) -> float:
        """Always 0: nothing is flushed here."""
        return 0.0

    def timed(self, call: Callable[[], Steps[T]]) -> Steps[tuple[T, float, bool]]:
        """Runs the call and waits for the device; the seconds are given as 0."""
        result = yield from call()
        self._wait()
        return result, 0.0, False

    def ungated(self, call: Callable[[], Steps[T]]) -> Steps[tuple[T, float, bool]]:
        """The same as `timed`: this clock has no gate that would hide the host's launch time."""
        return (yield from self.timed(call))

    def prepare(self, calls: Sequence[Callable[[], Steps[None]]]) -> Steps[None]:
        """Keeps the calls for `run`; none is run here."""
        self._calls = calls
        yield from ()

    def run(self) -> Steps[None]:
        """Runs the prepared calls one after the other, then waits for the device."""
        for call in self._calls:
            yield from call()
        self._wait()


class CpuClock(Untimed):
    """The monotonic clock, after twice the last-level cache's size (at most MOST_FLUSH) was read and written."""

    def __init__(self) -> None:
        super().__init__(lambda: None)
        size = min(max(2 * _last_level_cache(), LEAST_FLUSH), MOST_FLUSH)
        self._flush = torch.zeros(size // 8, dtype=torch.int64)
        self._now = perf_counter
        self._add = self._flush.add_

    def timed(self, call: Callable[[], Steps[T]]) -> Steps[tuple[T, float, bool]]:
        """Seconds between just before and just after the call."""
        self._add(1)
        began = self._now()
        result = yield from call()
        return result, self._now() - began, False


def _last_level_cache() -> int:
    """Bytes of the largest cache that the system lists; 0 when it lists none."""
    sizes = [0]
    units = {"K": 1 << 10, "M": 1 << 20}
    for file in CACHES.glob("index*/size") if os.path.isdir(CACHES) else ():
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        if text[:-1].isdigit() and text[-1:] in units:
            sizes.append(int(text[:-1]) * units[text[-1]])
    return max(sizes)
