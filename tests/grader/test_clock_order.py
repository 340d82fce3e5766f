"""In which order a GPU's clock does what it does around calls, by a driver that only takes notes: no GPU is needed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch

from grader.candidate.clock.gpu import GpuClock
from grader.candidate.clock.outside import outside, run
from grader.candidate.clock.published import PublishedClock

NOTED = {
    "_record": "record", "_wait_event": "await", "_synchronize": "synchronize", "_begin": "begin", "_upload": "upload",
    "_launch": "launch", "_destroy": "destroy", "_destroy_exec": "drop",
}  # fmt: skip


class Notes(list[str]):
    """What was done, in order."""

    def noting(self, what: str, result: Any = None) -> Callable[..., Any]:
        def done(*_: Any, **__: Any) -> Any:
            self.append(what)
            return result

        return done

    @contextlib.contextmanager
    def within(self, what: str, *_: Any, **__: Any) -> Iterator[None]:
        self.append(f"enter {what}")
        try:
            yield
        finally:
            self.append(f"leave {what}")


class FakeGate:
    def __init__(self, notes: Notes) -> None:
        self.shut = notes.noting("shut")
        self.open = notes.noting("open", False)


def clock_of(notes: Notes, kind: type[GpuClock] = GpuClock) -> Any:
    """A clock whose driver takes notes."""
    clock: Any = kind.__new__(kind)
    for name, what in NOTED.items():
        setattr(clock, name, notes.noting(what))
    clock._elapsed = lambda *_: 2.0
    clock._finish, clock._instantiate = notes.noting("finish", 7), notes.noting("instantiate", "graph")
    clock._on_stream, clock._pool_of = partial(notes.within, "stream"), partial(notes.within, "pool")
    clock._pool_type = object
    clock._start = clock._end = clock._stream = clock._mode = clock._capture_handle = clock._capture_stream = 0
    clock._gate, clock.flush, clock._device = FakeGate(notes), notes.noting("flush"), "cuda"
    clock._total = torch.zeros(())
    clock._graph, clock._pool, clock._calls, clock.captured = None, None, (), ""
    clock._write, clock._zeros_at, clock._zero_words = notes.noting("zeros"), 0, 0
    return clock


def test_a_timed_call_lies_between_its_events_behind_the_gate() -> None:
    notes = Notes()
    found = run(clock_of(notes).timed(partial(outside, notes.noting("call", "result"))))
    assert found == ("result", 2e-3, False)
    assert notes == ["flush", "shut", "record", "call", "record", "open", "await", "synchronize"]


def test_a_call_that_raises_opens_the_gate_and_is_raised() -> None:
    notes = Notes()

    def raises() -> None:
        notes.append("call")
        raise ValueError("of the submission")

    with pytest.raises(ValueError, match="of the submission"):
        run(clock_of(notes).timed(partial(outside, raises)))
    assert notes == ["flush", "shut", "record", "call", "open"]


@pytest.mark.parametrize(("kind", "way", "first"), [(GpuClock, "ungated", "flush"), (PublishedClock, "timed", "zeros")])
def test_without_the_gate_a_call_begins_on_an_idle_device(kind: type[GpuClock], way: str, first: str) -> None:
    notes = Notes()
    found = run(getattr(clock_of(notes, kind), way)(partial(outside, notes.noting("call", "result"))))
    assert found == ("result", 2e-3, False)
    assert notes == [first, "synchronize", "record", "call", "record", "await", "synchronize"]


def test_a_batch_runs_once_is_captured_and_launched() -> None:
    notes = Notes()
    clock = clock_of(notes)
    run(clock.prepare([partial(outside, notes.noting(f"call {i}")) for i in range(2)]))
    assert clock.captured == ""
    assert notes == [
        "enter stream", "call 0", "call 1", "leave stream", "synchronize",
        "enter stream", "enter pool", "begin", "call 0", "call 1", "finish", "leave pool", "leave stream",
        "instantiate", "upload", "destroy", "synchronize",
    ]  # fmt: skip
    notes.clear()
    run(clock.run())
    assert notes == ["launch", "synchronize"]
    notes.clear()
    run(clock.prepare(()))
    assert notes == ["drop"]


def test_a_batch_that_cannot_be_captured_leaves_stream_and_pool_and_runs_call_by_call() -> None:
    notes = Notes()
    clock = clock_of(notes)

    def call() -> None:
        notes.append("call")
        if notes.count("call") == 2:
            raise RuntimeError("only while it is captured")

    run(clock.prepare([partial(outside, call)]))
    assert clock.captured == "RuntimeError: only while it is captured" and clock._graph is None
    assert notes == [
        "enter stream", "call", "leave stream", "synchronize",
        "enter stream", "enter pool", "begin", "call", "finish", "leave pool", "leave stream", "destroy", "synchronize",
    ]  # fmt: skip
    notes.clear()
    run(clock.run())
    assert notes == ["call", "synchronize"]


def test_a_batch_that_raises_when_it_first_runs_is_not_captured() -> None:
    notes = Notes()
    clock = clock_of(notes)
    with pytest.raises(ZeroDivisionError):
        run(clock.prepare([partial(outside, divmod, 1, 0)]))
    assert notes == ["enter stream", "leave stream"]
