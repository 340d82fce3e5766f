"""How long a call takes on a GPU, with cold caches and without the host's launch time."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

__all__ = ["device_times"]

WARMUPS = 10
LEAST_GATE_S = 0.3e-3
MOST_GATE_S = 50e-3
CLOCK_HZ = 2.0e9  # of the gate's cycles; higher than any GPU of the deck runs, so that a gate is never too short


def device_times(
    fn: Callable[[], object], *, trials: int = 30, device: torch.device | str = "cuda", warmups: int = WARMUPS
) -> list[float]:
    """Seconds between two events around each of `trials` calls of `fn`.

    Before each call twice the L2's size is written and then read: weights and inputs come from DRAM, and the lines
    they push out are clean, so that the call does not pay for writing the flush back (4 to 10 us on an H200 for calls
    that move 100 MB). Then a kernel that only waits holds the stream while the host enqueues the call, so launch time
    is hidden unless the call itself waits for the device. The events are recorded in the process that runs the
    submission: they are a claim.
    """
    device = torch.device(device)
    if device.type != "cuda":
        raise ValueError("device times need a GPU")
    with torch.cuda.device(device):
        size = max(2 * torch.cuda.get_device_properties(device).L2_cache_size, 1 << 26)
        flush = torch.empty(size // 4, dtype=torch.float32, device=device)
        cycles = int(_gate_seconds(fn, warmups) * CLOCK_HZ)
        events = [(_event(), _event()) for _ in range(trials)]
        for start, end in events:
            flush.zero_()
            flush.sum()
            torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]
            start.record()
            fn()
            end.record()
            torch.cuda.synchronize()
        return [start.elapsed_time(end) / 1e3 for start, end in events]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _gate_seconds(fn: Callable[[], object], warmups: int) -> float:
    """Twice the time that the host takes to enqueue a call, within bounds."""
    enqueue = 0.0
    for _ in range(max(warmups, 1)):
        torch.cuda.synchronize()
        began = time.perf_counter()
        fn()
        enqueue = time.perf_counter() - began
    torch.cuda.synchronize()
    return min(max(2 * enqueue, LEAST_GATE_S), MOST_GATE_S)
