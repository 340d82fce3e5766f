"""How the candidate times calls on a GPU: events behind a gate with a cold L2, and batches as one captured graph.

Everything is bound when a clock is made, which is before a submission is imported. What it measures is a claim all the
same, because the submission runs in this process; the judge's clock around batches bounds it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, TypeVar

import torch

from grader.candidate.clock.gate import Gate
from grader.candidate.clock.outside import Steps
from grader.wire.driver import bound, constant, ordinal

__all__ = ["GpuClock"]

T = TypeVar("T")
FLUSH_L2 = 2
LEAST_FLUSH = 1 << 26
CANARY_SHARE = 3  # the canary re-reads this part of the L2
CANARY_READS = 31


class GpuClock:
    """Times calls on the stream that is current when it is made. Raises GpuError."""

    def __init__(self, device: str | torch.device = "cuda") -> None:
        self._device = torch.device("cuda", ordinal(device))
        stream = torch.cuda.current_stream(self._device)
        self._stream: int = stream.cuda_stream
        self._on_stream, self._torch_stream, self._pool_of = torch.cuda.stream, stream, torch.cuda.use_mem_pool
        self._pool_type = torch.cuda.MemPool
        self._bind()
        timing = constant("CUevent_flags.CU_EVENT_DEFAULT").value
        self._start, self._end = bound("cuEventCreate")(timing), bound("cuEventCreate")(timing)
        # Blocking, so that a submission's work on the legacy stream breaks a capture instead of being left out of it.
        blocking = constant("CUstream_flags.CU_STREAM_DEFAULT").value
        self._capture_handle = bound("cuStreamCreate")(blocking)
        self._capture_stream = torch.cuda.ExternalStream(int(self._capture_handle), device=self._device)  # type: ignore[no-untyped-call]
        self._gate = Gate()
        self._make_flush()
        self._graph: Any = None
        self._pool: Any = None
        self._calls: tuple[Callable[[], Steps[None]], ...] = ()
        self.captured = ""  # why the last batch could not be captured; empty where it was

    def _bind(self) -> None:
        self._record, self._wait_event = bound("cuEventRecord"), bound("cuEventSynchronize")
        self._elapsed = bound("cuEventElapsedTime")
        self._synchronize, self._reset_l2 = bound("cuCtxSynchronize"), bound("cuCtxResetPersistingL2Cache")
        self._begin, self._finish = bound("cuStreamBeginCapture"), bound("cuStreamEndCapture")
        self._instantiate, self._upload = bound("cuGraphInstantiate"), bound("cuGraphUpload")
        self._launch = bound("cuGraphLaunch")
        self._destroy, self._destroy_exec = bound("cuGraphDestroy"), bound("cuGraphExecDestroy")
        self._mode = constant("CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL")

    def _make_flush(self) -> None:
        """A buffer of FLUSH_L2 times the L2, and one of a part of it that the canary reads."""
        self._l2: int = torch.cuda.get_device_properties(self._device).L2_cache_size
        size = max(FLUSH_L2 * self._l2, LEAST_FLUSH)
        self._flush_buffer = torch.zeros(size // 4, dtype=torch.float32, device=self._device)
        self._canary = torch.zeros(
            max(self._l2 // CANARY_SHARE, 1 << 22) // 4, dtype=torch.float32, device=self._device
        )
        self._sum, self._total = torch.sum, torch.zeros((), dtype=torch.float32, device=self._device)
        self._write = bound("cuMemsetD32Async")
        self._flush_address, self._words = self._flush_buffer.data_ptr(), size // 4

    def flush(self) -> None:
        """Empties the L2 of everything but clean lines of a buffer of ours, in stream order.

        Lines that were set to persist become ordinary ones first. Then twice the L2's size is written and read: the
        last pass reads, so that the lines which a timed call pushes out need not be written back (4 to 10 us on an
        H200 for calls that move 100 MB).
        """
        self._reset_l2()
        self._write(self._flush_address, 0, self._words, self._stream)
        self._sum(self._flush_buffer, dim=0, out=self._total)

    def timed(self, call: Callable[[], Steps[T]]) -> Steps[tuple[T, float, bool]]:
        """(what the call returned, seconds between the events around it, whether it waited for the device).

        The stream waits at a gate until the call has returned, so that the host's launch time does not count. A call
        that waits for the device would wait for ever: after GATE_S the gate opens by itself, and what the host does
        from then on counts.
        """
        self.flush()
        self._gate.shut(self._stream)
        self._record(self._start, self._stream)
        try:
            result = yield from call()
            self._record(self._end, self._stream)
        finally:
            waited = self._gate.open()
        self._wait_event(self._end)
        seconds = self._elapsed(self._start, self._end) / 1e3
        self._synchronize()
        return result, seconds, waited

    def ungated(self, call: Callable[[], Steps[T]]) -> Steps[tuple[T, float, bool]]:
        """As `timed` without the gate, on a device that has nothing to do: every launch that it waits for counts."""
        self.flush()
        return (yield from self._from_idle(call))

    def _from_idle(self, call: Callable[[], Steps[T]]) -> Steps[tuple[T, float, bool]]:
        """Waits until the device has nothing to do; then the call between two events, its launches among them."""
        self._synchronize()
        self._record(self._start, self._stream)
        result = yield from call()
        self._record(self._end, self._stream)
        self._wait_event(self._end)
        seconds = self._elapsed(self._start, self._end) / 1e3
        self._synchronize()
        return result, seconds, False

    def canary(self) -> float:
        """The share of a re-read that comes from DRAM after a flush: 1 where the flush leaves nothing, 0 where all.

        Compares a read just after a flush with one just after a read of the same bytes, and with one after a read of
        four times the L2. All three read the same addresses, so that only what lies in the L2 differs.
        """
        far = torch.zeros(self._l2, dtype=torch.float32, device=self._device)

        def read(buffer: torch.Tensor) -> None:
            self._sum(buffer, dim=0, out=self._total)

        def after(between: Callable[[], None]) -> float:
            read(self._canary)
            between()
            return self._bare(lambda: read(self._canary))

        between: tuple[Callable[[], None], ...] = (lambda: None, self.flush, lambda: read(far))
        reads = [[after(doing) for doing in between] for _ in range(CANARY_READS)]
        hot, flushed, cold = (median(times) for times in zip(*reads, strict=True))
        return float((flushed - hot) / max(cold - hot, 1e-9))

    def _bare(self, call: Callable[[], object]) -> float:
        """Seconds of a call of ours behind the gate, without a flush."""
        self._gate.shut(self._stream)
        self._record(self._start, self._stream)
        call()
        self._record(self._end, self._stream)
        self._gate.open()
        self._wait_event(self._end)
        return float(self._elapsed(self._start, self._end)) / 1e3

    def prepare(self, calls: Sequence[Callable[[], Steps[None]]]) -> Steps[None]:
        """Takes the calls of the next batch: runs each once, so that what they build is built, and captures them all.

        Where they cannot be captured, `run` calls them one after the other and `captured` says why not.
        """
        self._drop()
        self._calls = tuple(calls)
        self.captured = ""
        if not self._calls:
            return
        with self._on_stream(self._capture_stream):
            for call in self._calls:
                yield from call()
        self._synchronize()
        self.captured = yield from self._capture()
        if self.captured:
            self._clear_errors()
        self._synchronize()

    def _capture(self) -> Steps[str]:
        """Makes `_graph` of the calls; else says why not, with the stream and the allocator as they were before."""
        pool = self._pool_type()
        graph: Any = None
        try:
            with self._on_stream(self._capture_stream), self._pool_of(pool, device=self._device):
                self._begin(self._capture_handle, self._mode)
                try:
                    for call in self._calls:
                        yield from call()
                finally:
                    graph = self._finish(self._capture_handle)
            self._graph = self._instantiate(graph, 0)
            self._upload(self._graph, self._capture_handle)
        except Exception as error:  # a submission may raise anything; what it raises for good, `run` raises again
            return " ".join(f"{type(error).__name__}: {error}".split())[:300]
        finally:
            if graph is not None and int(graph):
                self._destroy(graph)
        self._pool = pool
        return ""

    def _clear_errors(self) -> None:
        """Takes the error that a launch into a broken capture left for the next check, which would blame that."""
        for _ in range(2):
            with contextlib.suppress(RuntimeError):
                self._total.fill_(0.0)

    def run(self) -> Steps[None]:
        """Runs the prepared calls in order and returns when the device has finished."""
        if self._graph is not None:
            self._launch(self._graph, self._capture_handle)
        else:
            for call in self._calls:
                yield from call()
        self._synchronize()

    def close(self) -> None:
        """Gives up what the clock holds of the driver; it must not be used any more."""
        self._drop()
        self._synchronize()
        self._gate.close()
        for event in (self._start, self._end):
            bound("cuEventDestroy")(event)
        bound("cuStreamDestroy")(self._capture_handle)

    def _drop(self) -> None:
        graph, self._graph = self._graph, None
        if graph is not None:
            self._destroy_exec(graph)
        self._pool, self._calls = None, ()
