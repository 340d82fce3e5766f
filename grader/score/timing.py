"""How long a call takes on a GPU, with cold caches and without the host's launch time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from grader.candidate.clock.gpu import GpuClock
from grader.candidate.clock.outside import outside, run

__all__ = ["device_times"]

WARMUPS = 10


def device_times(
    fn: Callable[[], object], *, trials: int = 30, device: torch.device | str = "cuda", warmups: int = WARMUPS
) -> list[float]:
    """Seconds between two events around each of `trials` calls of `fn`, by the clock that grading uses.

    They are measured in the process that runs the submission: they are a claim. Raises GpuError where the driver
    cannot be used.
    """
    device = torch.device(device)
    if device.type != "cuda":
        raise ValueError("device times need a GPU")
    with torch.cuda.device(device):
        clock = GpuClock(device)
        try:
            for _ in range(max(warmups, 1)):
                fn()
            torch.cuda.synchronize()
            return [run(clock.timed(partial(outside, fn)))[1] for _ in range(trials)]
        finally:
            clock.close()
