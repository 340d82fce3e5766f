"""Work beside the calling thread and the current stream, and what waits for it.

A lane is a stream that the submission made, or a thread. An event that happens on a lane is `beside` (an attribute that
names the lane) until something that the caller waits for has waited for the lane: `wait_stream`, an event, `join`,
`synchronize`. What is still beside when `forward` returns may happen after the clock has stopped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.frontends.walk import by_node, walk
from kbh_lint.host.effects import outside
from kbh_lint.host.values import taint
from kbh_lint.host.values.frames import OutOfFuel, Raised
from kbh_lint.host.values.modelled import Methods, Owner, Rows, Site, models
from kbh_lint.host.values.named_objects import (
    CurrentStream,
    GpuEvent,
    PoolFuture,
    Stream,
    Thread,
    ThreadEvent,
    Timer,
)
from kbh_lint.host.values.objects import Bound, Instance, LibObject
from kbh_lint.host.values.tensors import Event, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

THREAD_FUEL = 4_000
LONG_WAIT = 1.0  # seconds; a shorter join may come back before the work is done
MAX_THREADS = 32
_SET = re.compile(r"\bset\b")
OWN_THREAD = "__thread__"  # the attribute of an object that is a thread
GAVE, ERROR = "__gave__", "__error__"  # attributes of a thread: its result, and the exception that ended it


class Lanes:
    """The lanes (threads and streams) of one run: the current one, and the events of each that nothing has waited for
    yet."""

    def __init__(self) -> None:
        self.current: list[LibObject] = []  # the innermost is last; empty: the caller's thread and stream
        self.pending: dict[int, list[Event]] = {}
        self.held: dict[int, LibObject] = {}  # keeps lanes alive, so that ids stay theirs
        # events, with their lane, what came before, and how much the caller had done by then
        self.recorded: dict[int, tuple[LibObject, Any, list[Event], int]] = {}
        self.seen = 0  # events so far
        self.behind: dict[int, int] = {}  # by lane: how many events there were when it last waited for the caller
        self.endless: list[LibObject] = []  # threads that loop for ever
        self.threads = 0

    def emitted(self, event: Event, captured: bool) -> None:
        """Registers an event: it is unordered with the caller's work while a lane is current, unless it is captured
        into a graph, which has an order of its own."""
        event.attrs.pop("beside", None)
        self.seen += 1
        if self.current and not captured:
            lane = self.current[-1]
            event.attrs["beside"] = "thread" if isinstance(lane, Thread) else "stream"
            self.held[id(lane)] = lane
            self.pending.setdefault(id(lane), []).append(event)

    def record(self, event: LibObject, lane: Value) -> None:
        """Records `event` on a lane: it stands for all work that is on the lane by now."""
        self.recorded[id(event)] = event, lane, list(self.pending.get(id(lane), ())), self._reached(lane)

    def wait_event(self, waiter: Value, event: Value) -> None:
        """Makes `waiter` wait for the work that `event` stands for; for nothing if the event was never recorded."""
        _, lane, before, reached = self.recorded.get(id(event), (event, None, [], 0))
        self.wait(waiter, lane, before, reached)

    def _reached(self, lane: Value) -> int:
        """How many of the caller's events come before what a lane does next; for the caller itself, all of them."""
        return self.behind.get(id(lane), 0) if is_stream(lane) else self.seen

    def apart(self, event: Event, position: int) -> bool:
        """Whether `event`, at `position` in the trace, and what runs now are unordered, so that both may run at
        once."""
        lane = self.current[-1] if self.current else None
        if not is_stream(lane):
            return event.attrs.get("beside") == "stream"
        if "beside" in event.attrs:
            return all(other is not event for other in self.pending.get(id(lane), ()))
        return self.behind.get(id(lane), 0) <= position

    def before_now(self, event: Event) -> bool:
        """Whether `event` certainly comes before what runs now."""
        lane = self.current[-1] if self.current else None
        if not is_stream(lane):
            return "beside" not in event.attrs
        return any(other is event for other in self.pending.get(id(lane), ()))

    def wait(self, waiter: Value, lane: Value, before: list[Event] | None = None, reached: int | None = None) -> None:
        """Makes `waiter` (a lane; anything else stands for the caller) wait for `lane`: for all its work, or for the
        events `before`."""
        if is_stream(waiter):
            known = self._reached(lane) if reached is None else reached
            self.behind[id(waiter)] = max(self.behind.get(id(waiter), 0), known)
        events = self.pending.get(id(lane), [])
        if before is not None:
            events = [event for event in before if "beside" in event.attrs]
        if isinstance(waiter, Stream) and waiter not in self.current[-1:]:
            self.held[id(waiter)] = waiter
            self.pending.setdefault(id(waiter), []).extend(events)
        elif self.current and waiter is self.current[-1]:
            self.pending.setdefault(id(waiter), []).extend(events)
        else:
            for event in events:
                event.attrs.pop("beside", None)
            left = [event for event in self.pending.pop(id(lane), []) if "beside" in event.attrs]
            if left:
                self.pending[id(lane)] = left

    def wait_all(self) -> None:
        """Makes the caller wait for the whole device; threads go on."""
        for key in [k for k in self.pending if not isinstance(self.held[k], Thread)]:
            for event in self.pending.pop(key):
                event.attrs.pop("beside", None)


def is_stream(value: Value) -> TypeGuard[Stream]:
    """Whether a value is a stream that the submission made."""
    return isinstance(value, Stream)


def enter(interp: Run, manager: LibObject) -> bool:
    """Enters `with torch.cuda.stream(s)` or `with s`; returns whether a lane became current."""
    stream = manager if is_stream(manager) else (manager.args[0] if manager.args else manager.kwargs.get("stream"))
    if not is_stream(stream):
        return False
    interp.lanes.current.append(stream)
    return True


def leave(interp: Run) -> None:
    """Leaves the stream that `enter` made current."""
    if interp.lanes.current:
        interp.lanes.current.pop()


@contextmanager
def on(interp: Run, stream: Value) -> Iterator[None]:
    """Makes `stream` current inside a with statement, if the submission made it."""
    if not is_stream(stream):
        yield
        return
    interp.lanes.current.append(stream)
    try:
        yield
    finally:
        interp.lanes.current.pop()


@contextmanager
def on_default(interp: Run) -> Iterator[None]:
    """Within it, what runs is on the default stream, the caller's, whichever is current: `kernel<<<g, b>>>()`."""
    lanes: Lanes = interp.lanes
    held, lanes.current = lanes.current, [lane for lane in lanes.current if not is_stream(lane)]
    try:
        yield
    finally:
        lanes.current = held


def current(interp: Run) -> LibObject:
    """Models `torch.cuda.current_stream()`."""
    held = interp.lanes.current
    return held[-1] if held and is_stream(held[-1]) else CurrentStream("torch.cuda.current_stream")


def set_stream(interp: Run, stream: Value) -> None:
    """Models `torch.cuda.set_stream(stream)`."""
    lanes: Lanes = interp.lanes
    while lanes.current and is_stream(lanes.current[-1]):
        lanes.current.pop()
    if is_stream(stream):
        lanes.current.append(stream)


class GpuEvents(Methods[Owner]):
    """Events of streams."""

    @models("record")
    def record(self, site: Site, owner: LibObject, stream: Value = None) -> None:
        """Models `event.record(stream)`; without a stream, on the current one."""
        run = site.run
        run.lanes.record(owner, stream if is_stream(stream) else current(run) if stream is None else None)

    @models("wait")
    def wait(self, site: Site, owner: LibObject, stream: Value = None) -> None:
        """Models `event.wait(stream)`: the stream, or the caller, waits for the recorded work."""
        site.run.lanes.wait_event(stream, owner)

    @models("query")
    def query(self, site: Site, owner: LibObject) -> Unknown:
        """Models `event.query()`."""
        return done(site.run, owner, site.loc)

    @models("synchronize")
    def synchronize(self, site: Site, owner: LibObject) -> None:
        """Models `event.synchronize()`: the caller waits for the recorded work."""
        site.run.lanes.wait_event(None, owner)


def done(interp: Run, owner: LibObject, loc: ir.Loc | None) -> Unknown:
    """Whether the work of a stream or event is done. It is where calls are checked one by one, and is not where they
    are timed."""
    kind = "Stream" if isinstance(owner, (Stream, CurrentStream)) else "Event"
    return taint.asked(interp, f"torch.cuda.{kind}.query", taint.QUEUE, loc, likely=True)


class _Streams(Methods[Owner]):
    """Streams, the current one too."""

    @models("query")
    def query(self, site: Site, owner: LibObject) -> Unknown:
        """Models `stream.query()`."""
        return done(site.run, owner, site.loc)

    @models("wait_stream")
    def wait_stream(self, site: Site, owner: LibObject, stream: Value) -> None:
        """Models `stream.wait_stream(other)`."""
        site.run.lanes.wait(owner, stream)

    @models("wait_event", "wait")
    def wait_event(self, site: Site, owner: LibObject, event: Value) -> Value:
        """Models `stream.wait_event(event)`, and cuda.core's `stream.wait(event_or_stream)`."""
        if not isinstance(event, LibObject):
            return NotImplemented
        (site.run.lanes.wait if is_stream(event) else site.run.lanes.wait_event)(owner, event)
        return None

    @models("synchronize", "sync")
    def synchronize(self, site: Site, owner: LibObject) -> None:
        """Models `stream.synchronize()`."""
        site.run.lanes.wait(None, owner)

    @models("record_event", "record")
    def record_event(self, site: Site, owner: LibObject, event: Value = None) -> Value:
        """Models `stream.record_event(event)`: returns the event, or a new one."""
        made = event if isinstance(event, LibObject) else GpuEvent("torch.cuda.Event")
        site.run.lanes.record(made, owner)
        return made


class _ThreadEvents(Methods[Owner]):
    """`threading.Event`."""

    @models("is_set", "isSet")
    def is_set(self, site: Site, owner: LibObject) -> Value:
        """Models `event.is_set()` of a threading.Event: False where nothing in the submission could set one, and for a
        thread that asks whether it is to end, since it runs as soon as it was started."""
        lane = site.run.lanes.current[-1:]
        return False if lane and isinstance(lane[0], Thread) or not _sets_any(site.run) else NotImplemented


class _Threads(Methods[Owner]):
    """Threads, and the futures of pools."""

    @models("start", "run")
    def start(self, site: Site, owner: LibObject) -> None:
        """Models `thread.start()`: the thread's function is interpreted at once and to its end."""
        target, args, kwargs = _target(owner)
        owner.attrs["loc"] = site.loc
        if target is not None:
            owner.attrs[GAVE] = run(site.run, owner, target, args, kwargs, site.loc)

    @models("join", "wait")
    def join(self, site: Site, owner: LibObject, timeout: Value = None) -> None:
        """Models `thread.join(timeout)`: the caller waits, unless the timeout is short."""
        if not isinstance(timeout, (int, float)) or timeout >= LONG_WAIT:
            site.run.lanes.wait(None, owner)

    @models("result", "get")
    def result(self, site: Site, owner: LibObject, timeout: Value = None) -> Value:
        """Models `future.result(timeout)`."""
        return result(site.run, owner)

    @models("exception")
    def exception(self, site: Site, owner: LibObject, timeout: Value = None) -> Value:
        """Models `future.exception(timeout)`."""
        site.run.lanes.wait(None, owner)
        return getattr(owner.attrs.get(ERROR), "value", None)

    @models("is_alive", "done")
    def is_alive(self, site: Site, owner: LibObject) -> bool:
        """Models `thread.is_alive()` and `future.done()`, both taken to be True: one is asked before waiting, the other
        when no more is to come."""
        return True

    @models("add_done_callback")
    def then(self, site: Site, owner: LibObject, fn: Value) -> None:
        """Models `future.add_done_callback(fn)`: the function runs in the future's lane."""
        run(site.run, owner, fn, [owner], {}, site.loc)


THREADS = _Threads()
METHODS: Rows = {Stream: _Streams(), CurrentStream: _Streams(), ThreadEvent: _ThreadEvents(), Thread: THREADS}


def _sets_any(interp: Run) -> bool:
    """Whether anything in the submission could set an event: without it none ever is, whatever threads do."""
    return _names_set(interp.session.module) or any(_SET.search(text) for text in interp.files.texts.values())


@by_node
def _names_set(module: ir.Module) -> bool:
    return any(
        isinstance(node, ir.Attr) and node.name == "set" or isinstance(node, ir.Const) and node.value == "set"
        for node in walk(module.body)
    )


def of_object(owner: Instance) -> LibObject:
    """Returns the thread of an object whose class derives from Thread: it runs the object's own `run`."""
    held = owner.attrs.get(OWN_THREAD)
    if not isinstance(held, LibObject):
        target = owner.cls.find("run") if "run" in owner.cls.env.vars else None
        held = owner.attrs[OWN_THREAD] = Thread("threading.Thread", {}, (None, Bound(owner, target)))
    return held


def _target(owner: LibObject) -> tuple[Any, list[Any], dict[str, Any]]:
    """What a thread runs: Thread(group, target, name, args, kwargs), or Timer(interval, function, args, kwargs)."""
    timer = isinstance(owner, Timer)
    names = ("interval", "function", "args", "kwargs") if timer else ("group", "target", "name", "args", "kwargs")
    given = {**dict(zip(names, owner.args, strict=False)), **owner.kwargs}
    args, kwargs = given.get("args", ()), given.get("kwargs", {})
    return (
        given.get("function" if timer else "target"),
        list(args) if isinstance(args, (list, tuple)) else [],
        kwargs if isinstance(kwargs, dict) else {},
    )


def result(interp: Run, lane: LibObject) -> Any:
    """Waits for a thread and returns its result; raises the exception that ended it."""
    interp.lanes.wait(None, lane)
    error = lane.attrs.get(ERROR)
    if error is not None:
        raise error
    return lane.attrs.get(GAVE)


def run(
    interp: Run,
    lane: LibObject,
    target: Value,
    args: list[Any],
    kwargs: dict[str, Any],
    loc: ir.Loc | None,
    bounded: bool = True,
) -> Any:
    """Interprets the body of a thread (`target` called with `args`), at once and to its end; returns its result.

    Where `bounded`, it may take THREAD_FUEL steps at most. A thread that uses them up loops for ever: it is kept, and
    goes on between the calls of forward."""
    lanes: Lanes = interp.lanes
    lanes.threads += not isinstance(lane, PoolFuture)  # a pool has few threads for many of them
    if lanes.threads > MAX_THREADS:
        if lanes.threads == MAX_THREADS + 1:
            outside.note(interp, "resource", "threading.Thread", f"more than {MAX_THREADS} threads", loc)
        return Unknown((), "a thread")
    before = interp.fuel
    interp.fuel = min(before, THREAD_FUEL) if bounded else before
    given = interp.fuel
    lanes.current.append(lane)
    depth, frames = len(lanes.current), len(interp.frames)
    try:
        return interp.call(target, args, kwargs, loc)
    except OutOfFuel:
        if not bounded:
            raise
        if lane not in lanes.endless:
            lane.attrs["again"] = (target, args, kwargs)
            lanes.endless.append(lane)
    except Raised as error:  # ends the thread, nothing else
        lane.attrs[ERROR] = error
    finally:
        del lanes.current[depth - 1 :]
        del interp.frames[frames:]
        interp.fuel = before - (given - max(interp.fuel, 0))
    return Unknown((), "a thread")
