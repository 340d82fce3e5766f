"""The clock that the benchmark was first published with, for `kbh grade --protocol 2026-04` only.

Before each call a buffer is set to zero and the host waits; then the call runs between two events, with no gate. So the
time holds the host's launch, which costs small kernels several times their own, and the lines that the zeros left dirty
in the L2 are written back during the call. It is kept because a number beside the published ones must be taken as they
were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from grader.candidate.clock.gpu import GpuClock
from grader.candidate.clock.outside import Steps

__all__ = ["PUBLISHED_FLUSH_BYTES", "PublishedClock"]

T = TypeVar("T")
PUBLISHED_FLUSH_BYTES = 128 << 20  # as in problems/published_2026_04.yaml, which a candidate cannot read


class PublishedClock(GpuClock):
    """Times calls as published; batches run as they do under the other protocol. Raises GpuError."""

    def __init__(self, device: str | torch.device = "cuda") -> None:
        super().__init__(device)
        words = PUBLISHED_FLUSH_BYTES // 4
        self._zeros = torch.zeros(words, dtype=torch.float32, device=self._device)
        self._zeros_at, self._zero_words = self._zeros.data_ptr(), words

    def timed(self, call: Callable[[], Steps[T]]) -> Steps[tuple[T, float, bool]]:
        """(what the call returned, seconds between the events around it, False: waiting is not told apart)."""
        self._write(self._zeros_at, 0, self._zero_words, self._stream)
        return (yield from self._from_idle(call))
