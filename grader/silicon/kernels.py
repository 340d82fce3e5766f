"""Which kernels a call launched: their names, sizes and times, whose they are, and whether two passes saw the same."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grader.silicon.ncu import Launch, ProfilerError
from grader.silicon.record import KernelRow

__all__ = ["Traced", "Tracing", "library_of", "parse_trace", "rows", "same_sequence"]

MOST_TRACE = 64 << 20  # characters
MOST_EVENTS = 200_000
MOST_KERNELS = 20_000
SHOWN_NAME = 200
DURATION = "gpu__time_duration.sum"
SHARED = "launch__shared_mem_per_block_dynamic"
DEVICE_WORK = {"kernel": True, "gpu_memcpy": False, "gpu_memset": False}  # category of a trace -> is it a kernel

# What a kernel's name, mangled or not, says about who wrote it: the first that matches. `headers`: its source is often
# compiled into a submission, so that the name says nothing when the submission's own machine code holds it.
LIBRARIES: tuple[tuple[str, str, bool], ...] = (
    (r"triton_(poi|red|per|tem|for|mm|bmm|convolution)_", "torch.compile", False),
    (r"cudnn", "cuDNN", False),
    (r"(^|\s|_ZN\d+|::)cublas", "cuBLAS", False),
    (r"gemvNSP_kernel|gemv2[NT]_kernel_val|internal5?(::)?gemvx|splitKreduce_kernel", "cuBLAS", False),
    (r"^nvjet_|^sm\d+_xmma_", "cuBLAS", False),
    (r"^(volta|turing|ampere|hopper)_\w*gemm", "cuBLAS", False),
    (r"pytorch_flash|fmha_cutlass|_efficient_attention", "torch", False),
    (r"(^|\s|_ZN?K?|\d)at(::|6)native(::|\d)|_ZN2at4cuda|at::cuda::|at_cuda_detail|_ZN3c10|c10::", "torch", False),
    (r"cutlass", "CUTLASS", True),
    (r"flashinfer|flash_fwd|flash_bwd|vllm|[mM]arlin", "a kernel library", True),
    (r"thrust|N3cub|cub::", "CUB", True),
)  # fmt: skip
_LIBRARIES = tuple((re.compile(pattern), owner, headers) for pattern, owner, headers in LIBRARIES)


@dataclass(frozen=True, slots=True)
class Traced:
    """A piece of work of the device in a trace; `start` in seconds of the trace's own clock."""

    kernel: bool
    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    start: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Tracing:
    """What a tracer saw of one call, by start."""

    work: tuple[Traced, ...]

    @property
    def kernels(self) -> tuple[Traced, ...]:
        """The kernels among the device's work, without copies and fills by the driver."""
        return tuple(piece for piece in self.work if piece.kernel)

    @property
    def busy(self) -> float:
        """Seconds in which the device did any of this work; gaps, in which the host was late, do not count."""
        total = end = 0.0
        for piece in self.work:
            total += max(piece.start + piece.seconds - max(piece.start, end), 0.0)
            end = max(end, piece.start + piece.seconds)
        return total

    @property
    def span(self) -> float:
        """Seconds from the first start to the last end; 0 without work."""
        if not self.work:
            return 0.0
        return max(piece.start + piece.seconds for piece in self.work) - self.work[0].start


def library_of(kernel: str, own: frozenset[str] | None = None) -> str:
    """Who wrote a kernel, by its name; empty where that says nothing.

    `own` holds the names in the submission's machine code (None: not known, and what may be its own counts as that).
    """
    for pattern, owner, headers in _LIBRARIES:
        if pattern.search(kernel):
            return "" if headers and (own is None or kernel in own) else owner
    return ""


def rows(launches: Sequence[Launch], own: frozenset[str] | None = None) -> tuple[KernelRow, ...]:
    """Launches summed by kernel and grid, in the order in which they were first seen."""
    found: dict[tuple[str, tuple[int, ...], tuple[int, ...]], list[float]] = {}
    for launch in launches:
        found.setdefault((launch.kernel, launch.grid, launch.block), []).append(launch.metrics[DURATION])
    return tuple(
        KernelRow(name[:SHOWN_NAME], grid, block, len(times), math.fsum(times), library_of(name, own))
        for (name, grid, block), times in found.items()
    )


def same_sequence(one: Sequence[Launch], other: Sequence[Launch]) -> str:
    """What differs between the kernels of two calls, in a few words; empty when they are the same in order and size."""
    if len(one) != len(other):
        return f"{len(one)} kernels and then {len(other)}"
    for number, (first, second) in enumerate(zip(one, other, strict=True), 1):
        if first.kernel != second.kernel:
            return f"kernel {number} is {first.kernel[:80]} and then {second.kernel[:80]}"
        if (first.grid, first.block) != (second.grid, second.block):
            return f"kernel {number}, {first.kernel[:80]}, has other sizes the second time"
    return ""


def parse_trace(text: str) -> Tracing:
    """The device's work in a trace in Chrome's format, as torch's profiler writes it. Raises ProfilerError."""
    if len(text) > MOST_TRACE:
        raise ProfilerError(f"the trace of a call has more than {MOST_TRACE} characters")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise ProfilerError("the trace of a call is not JSON") from None
    events = data.get("traceEvents") if isinstance(data, dict) else None
    if not isinstance(events, list) or len(events) > MOST_EVENTS:
        raise ProfilerError("the trace of a call has no list of events, or too long a one")
    found = [_traced(event) for event in events if isinstance(event, dict) and event.get("ph") == "X"]
    work = sorted((piece for piece in found if piece is not None), key=lambda piece: piece.start)
    if len(work) > MOST_KERNELS:
        raise ProfilerError(f"the trace of a call has more than {MOST_KERNELS} pieces of work")
    return Tracing(tuple(work))


def _traced(event: Mapping[str, Any]) -> Traced | None:
    """An event of the device; None for one of the host."""
    kernel = DEVICE_WORK.get(str(event.get("cat")))
    if kernel is None:
        return None
    details = event.get("args")
    details = details if isinstance(details, dict) else {}
    start, seconds = (_seconds(event.get(name)) for name in ("ts", "dur"))
    grid, block = (_sizes(details.get(name)) for name in ("grid", "block")) if kernel else ((), ())
    return Traced(kernel, str(event.get("name"))[:SHOWN_NAME], grid, block, start, seconds)


def _seconds(value: object) -> float:
    """Microseconds of a trace in seconds."""
    if not isinstance(value, (int, float)) or not 0 <= value < 1e18:
        raise ProfilerError("the trace of a call has a time that is not a number")
    return float(value) * 1e-6


def _sizes(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) != 3 or not all(type(x) is int and 0 < x < 1 << 32 for x in value):
        raise ProfilerError("the trace of a call has a kernel without sizes")
    return tuple(value)
