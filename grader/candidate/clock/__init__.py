"""How the candidate times a call: the claimed clock, with cold caches, and batches without one.

What this process measures is a claim, because the submission runs in it. The functions are bound here, before a
submission is imported, so that one which replaces them in their modules changes nothing; one that goes further is held
by the judge's own clock around batches. What is called is given as steps (`outside`), so that no clock lies on the
submission's stack.
"""

from __future__ import annotations

import torch

from grader.candidate.clock.cpu import Clock, CpuClock, Untimed
from grader.candidate.clock.gpu import GpuClock
from grader.candidate.clock.profile import ProfileClock
from grader.candidate.clock.published import PublishedClock
from grader.wire.marks import Instrument

__all__ = ["Clock", "CpuClock", "Untimed", "make_clock"]


def make_clock(device: torch.device, timing: bool, profile: Instrument | None = None, published: bool = False) -> Clock:
    """The clock of a device.

    With `profile` it marks calls for a profiler instead of timing them; with `published` it times as the protocol of
    2026-04 does, which only a GPU can.
    """
    if device.type != "cuda":
        return CpuClock() if timing else Untimed(lambda: None)
    if profile:
        return ProfileClock(device, profile)
    if not timing:
        return Untimed(lambda: torch.cuda.synchronize(device))
    if published:
        return PublishedClock(device)
    return GpuClock(device)
