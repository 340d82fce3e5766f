"""Streams and events of the CUDA runtime in C++ host code: which launches run beside the caller's stream.

A stream that the runtime makes without `cudaStreamNonBlocking` is ordered with the default stream, the caller's;
it is no lane. What is not understood here counts as a wait for everything: a launch is beside only where that is sure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.cpp.std.making import Making
from kbh_lint.host.python import lanes
from kbh_lint.host.values.cpp_objects import Event, Slot, StreamGuard
from kbh_lint.host.values.named_objects import Stream
from kbh_lint.host.values.objects import LibObject

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

_DONE = Sym("cudaSuccess")


def call(run: Cpp, short: str, args: list[Any]) -> Any:
    """Models a function of the CUDA runtime about streams and events; NotImplemented for all others."""
    if short == "getStreamFromPool":
        return Stream("cpp.stream")
    if short == "getCurrentCUDAStream":
        stream = lanes.current(run.interp)
        return stream if lanes.is_stream(stream) else NotImplemented
    if short == "getStreamFromExternal":
        given = args[0].get() if args and isinstance(args[0], Slot) else next(iter(args), None)
        return given if lanes.is_stream(given) else NotImplemented
    if short == "setCurrentCUDAStream":
        lanes.set_stream(run.interp, *[a.get() if isinstance(a, Slot) else a for a in args[:1] or [None]])
        return None
    row = _ROWS.get(short) or next((row for begin, row in _MAKERS.items() if short.startswith(begin)), None)
    if row is None:
        return NotImplemented
    row(run.interp.lanes, args, [a.get() if isinstance(a, Slot) else a for a in args])
    return _DONE


def _stream(state: lanes.Lanes, args: list[Value], plain: list[Value]) -> None:
    """A stream comes to be, which is a lane where it is not ordered with the caller's."""
    if args and isinstance(args[0], Slot):
        apart = any(_is_non_blocking(value) for value in plain[1:])
        args[0].set(Stream("cpp.stream") if apart else LibObject("cpp.ordered_stream"))


def _event(state: lanes.Lanes, args: list[Value], plain: list[Value]) -> None:
    """An event comes to be."""
    if args and isinstance(args[0], Slot):
        args[0].set(Event("cpp.event"))


def _recorded(state: lanes.Lanes, args: list[Value], plain: list[Value]) -> None:
    """An event stands for what a stream was given so far."""
    if plain and isinstance(plain[0], Event):
        state.record(plain[0], plain[1] if len(plain) > 1 and lanes.is_stream(plain[1]) else None)


def _awaited(state: lanes.Lanes, args: list[Value], plain: list[Value]) -> None:
    """A stream waits for an event."""
    if len(plain) > 1 and id(plain[1]) in state.recorded:
        state.wait_event(plain[0], plain[1])
    elif not (plain and lanes.is_stream(plain[0])):
        state.wait_all()


def _joined(state: lanes.Lanes, args: list[Value], plain: list[Value]) -> None:
    """The caller waits for a stream."""
    if plain and lanes.is_stream(plain[0]):
        state.wait(None, plain[0])


def _all_joined(state: lanes.Lanes, args: list[Value], plain: list[Value]) -> None:
    """The caller waits for all."""
    state.wait_all()


_Row = Callable[[lanes.Lanes, list[Any], list[Any]], None]
_ROWS: dict[str, _Row] = {
    **dict.fromkeys(("cudaEventRecord", "cuEventRecord", "cudaEventRecordWithFlags"), _recorded),
    **dict.fromkeys(("cudaStreamWaitEvent", "cuStreamWaitEvent"), _awaited),
    **dict.fromkeys(("cudaStreamSynchronize", "cuStreamSynchronize"), _joined),
    **dict.fromkeys(("cudaDeviceSynchronize", "cuCtxSynchronize", "cudaThreadSynchronize"), _all_joined),
    **dict.fromkeys(("cudaEventSynchronize", "cuEventSynchronize"), _all_joined),
}
_MAKERS: dict[tuple[str, ...], _Row] = {
    ("cudaStreamCreate", "cuStreamCreate"): _stream,
    ("cudaEventCreate", "cuEventCreate"): _event,
}


def _is_non_blocking(value: Value) -> bool:
    return value == 1 or isinstance(value, Sym) and "NON_BLOCKING" in value.path.upper().replace("NONB", "NON_B")


def event(made: Making) -> Event:
    """`at::cuda::CUDAEvent`, made when it is recorded for the first time."""
    return Event("cpp.event")


def guard(made: Making) -> LibObject:
    """`CUDAStreamGuard guard(stream)`: from its declaration to the end of the scope the current stream is another
    (`classes.begins_in_scope`)."""
    stream = made.items[0] if made.items else None
    stream = stream.get() if isinstance(stream, Slot) else stream
    if not lanes.is_stream(stream):
        return LibObject.by_path("cpp:CUDAStreamGuard")
    return StreamGuard("cpp.stream_guard", {}, (stream,))


def method(run: Cpp, owner: LibObject, name: str, args: list[Value], loc: ir.Loc | None) -> Any:
    """A method of a stream or an event: `stream.stream()` is the stream itself, `event.record(stream)` and
    `event.block(stream)` order streams, and what else blocks waits for everything. NotImplemented for all others."""
    state = run.interp.lanes
    plain = [a.get() if isinstance(a, Slot) else a for a in args]
    if lanes.is_stream(owner) and name in ("stream", "unwrap", "id"):
        return owner
    if name == "query" and (lanes.is_stream(owner) or isinstance(owner, Event)):
        return lanes.done(run.interp, owner, loc)
    done = _of_event(run, owner, name, plain) if isinstance(owner, Event) else NotImplemented
    if done is not NotImplemented:
        return done
    if lanes.is_stream(owner) and name == "synchronize":
        state.wait(None, owner)
    elif name in ("block", "synchronize", "wait"):
        state.wait_all()
    return NotImplemented


def _of_event(run: Cpp, owner: Event, name: str, plain: list[Value]) -> Any:
    state = run.interp.lanes
    if name in ("record", "recordOnce"):
        state.record(owner, next((a for a in plain or [lanes.current(run.interp)] if lanes.is_stream(a)), None))
        return None
    if name == "block" and id(owner) in state.recorded:
        state.wait_event(plain[0] if plain else None, owner)
        return None
    return owner if name == "event" else NotImplemented


OBJECTS: dict[str, Callable[[Making], Value]] = {
    "CUDAEvent": event, **dict.fromkeys(("CUDAStreamGuard", "OptionalCUDAStreamGuard"), guard),
}  # fmt: skip
