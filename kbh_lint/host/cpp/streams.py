"""Streams and events of the CUDA runtime in C++ host code: which launches run beside the caller's stream.

A stream that the runtime makes without `cudaStreamNonBlocking` is ordered with the default stream, the caller's;
it is no lane. What is not understood here counts as a wait for everything: a launch is beside only where that is sure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base.values import Sym, Value
from kbh_lint.host.python import lanes
from kbh_lint.host.values.cpp_objects import Event, Slot
from kbh_lint.host.values.named_objects import Stream
from kbh_lint.host.values.objects import LibObject

if TYPE_CHECKING:
    from kbh_lint.host.cpp.cpp import Cpp

_DONE = Sym("cudaSuccess")
_WAITS = ("cudaDeviceSynchronize", "cuCtxSynchronize", "cudaThreadSynchronize", "cudaEventSynchronize",
          "cuEventSynchronize")  # fmt: skip


def call(run: Cpp, short: str, args: list[Any]) -> Any:
    """A runtime function about streams and events; NotImplemented for all others."""
    state: lanes.Lanes = run.interp.lanes
    plain = [a.get() if isinstance(a, Slot) else a for a in args]
    if short == "getStreamFromPool":
        return Stream("cpp.stream")
    if short.startswith(("cudaStreamCreate", "cuStreamCreate")):
        if args and isinstance(args[0], Slot):
            apart = any(_is_non_blocking(value) for value in plain[1:])
            args[0].set(Stream("cpp.stream") if apart else LibObject("cpp.ordered_stream"))
        return _DONE
    if short.startswith(("cudaEventCreate", "cuEventCreate")):
        if args and isinstance(args[0], Slot):
            args[0].set(Event("cpp.event"))
        return _DONE
    if short in ("cudaEventRecord", "cuEventRecord", "cudaEventRecordWithFlags"):
        if plain and _is_event(plain[0]):
            state.record(plain[0], plain[1] if len(plain) > 1 and lanes.is_stream(plain[1]) else None)
        return _DONE
    if short in ("cudaStreamWaitEvent", "cuStreamWaitEvent"):
        if len(plain) > 1 and id(plain[1]) in state.recorded:
            state.wait_event(plain[0], plain[1])
        elif not (plain and lanes.is_stream(plain[0])):
            state.wait_all()
        return _DONE
    if short in ("cudaStreamSynchronize", "cuStreamSynchronize"):
        if plain and lanes.is_stream(plain[0]):
            state.wait(None, plain[0])
        return _DONE
    if short in _WAITS:
        state.wait_all()
        return _DONE
    return NotImplemented


def _is_non_blocking(value: Value) -> bool:
    return value == 1 or isinstance(value, Sym) and "NON_BLOCKING" in value.path.upper().replace("NONB", "NON_B")


def _is_event(value: Value) -> bool:
    return isinstance(value, Event)


def method(run: Cpp, owner: LibObject, name: str) -> Any:
    """`stream.stream()`, `event.block(stream)`: a stream stays itself, and what blocks waits for everything."""
    if lanes.is_stream(owner) and name in ("stream", "unwrap", "id"):
        return owner
    if name in ("block", "synchronize", "wait"):
        run.interp.lanes.wait_all()
    return NotImplemented
