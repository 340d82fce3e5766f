"""How the candidate calls a submission for a profiler: with a cold L2, once or twice unseen, and then between marks.

What profilers write comes out of the candidate's own process, so all of it is a claim. The judge holds it against what
it knows: outputs must be those of the timed pass, and times must fit the ones that were scored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from grader.candidate.clock.cpu import Untimed
from grader.candidate.clock.gate import Gate
from grader.candidate.clock.gpu import FLUSH_L2, LEAST_FLUSH
from grader.candidate.clock.outside import Steps
from grader.wire.driver import bound, ordinal
from grader.wire.marks import MARK, UNSEEN_CALLS, Instrument

__all__ = ["ProfileClock"]

T = TypeVar("T")


class ProfileClock(Untimed):
    """Marks calls for Nsight Compute (`counters`), or writes what torch's profiler saw of each (`trace`). No times."""

    def __init__(self, device: str | torch.device, instrument: Instrument) -> None:
        number = ordinal(device)
        super().__init__(lambda: torch.cuda.synchronize(number))
        self._instrument = instrument
        self._model = self._call = 0
        self._begin, self._end = bound("cuProfilerStart"), bound("cuProfilerStop")
        self._open, self._close = torch.cuda.nvtx.range_start, torch.cuda.nvtx.range_end
        self._profile = torch.profiler.profile
        self._activities = [torch.profiler.ProfilerActivity.CUDA]
        self._gate, self._stream = Gate(), torch.cuda.current_stream(number).cuda_stream
        self._folder = Path(os.environ.get("TMPDIR", "/tmp"))
        size = max(FLUSH_L2 * torch.cuda.get_device_properties(number).L2_cache_size, LEAST_FLUSH)
        self._flush = torch.zeros(size // 4, dtype=torch.float32, device=torch.device("cuda", number))
        self._sum, self._total = torch.sum, torch.zeros((), dtype=torch.float32, device=self._flush.device)
        if instrument == "trace":
            self._first_trace()

    def _first_trace(self) -> None:
        """Has the tracer started once: on an H100 that takes 5 to 7 s, which are then not waited for in a call."""
        with self._profile(activities=self._activities):
            self._flush.add_(1.0)
            self._wait()

    def prepare(self, calls: Sequence[Callable[[], Steps[None]]]) -> Steps[None]:
        """A new model comes after this; its first calls are not marked."""
        yield from super().prepare(calls)
        self._model, self._call = self._model + 1, 0

    def timed(self, call: Callable[[], Steps[T]]) -> Steps[tuple[T, float, bool]]:
        """Runs the call from a cold L2; the time is 0."""
        self._call += 1
        self._flush.add_(1.0)
        self._sum(self._flush, dim=0, out=self._total)  # read last, so that the lines which are left are clean
        self._wait()
        if self._call <= UNSEEN_CALLS:
            return (yield from super().timed(call))
        return (yield from (self._marked if self._instrument == "counters" else self._traced)(call))

    def _marked(self, call: Callable[[], Steps[T]]) -> Steps[tuple[T, float, bool]]:
        """Between marks that belong to the whole process, whichever thread launches."""
        self._begin()
        mark = self._open(f"{MARK}/{self._model}/{self._call}")
        try:
            return (yield from super().timed(call))
        finally:
            self._wait()
            self._close(mark)
            self._end()

    def _traced(self, call: Callable[[], Steps[T]]) -> Steps[tuple[T, float, bool]]:
        """Behind a gate, so that no kernel waits for its launch."""

        def launched() -> Steps[T]:
            self._gate.shut(self._stream)
            try:
                return (yield from call())
            finally:
                self._gate.open()

        with self._profile(activities=self._activities) as seen:
            result = yield from super().timed(launched)
        seen.export_chrome_trace(str(self._folder / f"{MARK}-{self._model}-{self._call}.json"))
        return result
