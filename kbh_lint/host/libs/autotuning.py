"""What a program times its own variants with: events, timers, `do_bench`, and statistics of times (`elapsed`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import elapsed
from kbh_lint.host.effects import decoding
from kbh_lint.host.python import lanes
from kbh_lint.host.values.modelled import Methods, Owner, Rows, Site, models
from kbh_lint.host.values.named_objects import BenchmarkTimer, GpuEvent, TimeitTimer
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def call(interp: Run, function: Value, args: list[Any], loc: ir.Loc | None) -> Any:
    """Calls a function and returns the time that the call took."""
    start = len(interp.trace.events)
    interp.call(function, args, {}, loc)
    return elapsed.time_of(interp, interp.trace.events[start:])


class _TimedEvents(lanes.GpuEvents):
    """Methods of CUDA events, which measure times."""

    @models("record")
    def record(self, site: Site, owner: LibObject, stream: Value = None) -> None:
        """Models `event.record(stream)` of a timing event."""
        owner.attrs["at"] = len(site.run.trace.events)
        super().record(site, owner, stream)

    @models("elapsed_time")
    def elapsed_time(self, site: Site, owner: LibObject, end_event: Value) -> Value:
        """Models `start.elapsed_time(end)`: the time of what happened between two events."""
        if not isinstance(end_event, LibObject):
            return NotImplemented
        events, start, end = site.run.trace.events, owner.attrs.get("at"), end_event.attrs.get("at")
        return elapsed.time_of(site.run, events[start:end] if start is not None and end is not None else ())


class _Timers(Methods[Owner]):
    """Methods of `timeit.Timer` and of torch's timer, which returns measurements of its own class."""

    @models("timeit", "blocked_autorange", "adaptive_autorange", "repeat", "autorange")
    def measure(self, site: Site, owner: LibObject, *times: Value, **options: Value) -> Value:
        """Models `timer.timeit()` and the like: the time of the statement that the timer was made for."""
        given = {**dict(zip(("stmt", "setup", "timer", "globals"), owner.args, strict=False)), **owner.kwargs}
        time = timed(site.run, given.get("stmt"), given.get("globals"), site.loc)
        if not isinstance(owner, BenchmarkTimer):
            return time
        told = dict.fromkeys(("median", "mean", "iqr"), time)
        return LibObject("torch.utils.benchmark.Measurement", {**told, "times": [time]})


METHODS: Rows = {GpuEvent: _TimedEvents(), TimeitTimer: _Timers()}


def statistic(name: str, values: Value) -> Value:
    """Models a function of statistics or numpy on a list of measured times; NotImplemented for anything else."""
    items = values if isinstance(values, (list, tuple)) else ()
    found = _STATISTICS.get(name)
    if found is None or not items or not all(isinstance(item, elapsed.Measured) for item in items):
        return NotImplemented
    return found(items)


_STATISTICS: dict[str, Callable[[Sequence[float]], Any]] = {
    "argmin": lambda items: items.index(min(items)), "argmax": lambda items: items.index(max(items)),
    "min": min, "max": max, "amin": min, "amax": max, "median": lambda items: sorted(items)[len(items) // 2],
    "mean": lambda items: sum(items) / len(items), "fmean": lambda items: sum(items) / len(items),
}  # fmt: skip


def timed(interp: Run, function: Value, scope: Value, loc: ir.Loc | None) -> Value:
    """Returns the time that a function, or a source text run in `scope`, takes."""
    if not isinstance(function, str):
        return call(interp, function, [], loc) if function is not None else Unknown((), "a time")
    start, made = len(interp.trace.events), interp.made
    decoding.execute(interp, function, dict(scope) if isinstance(scope, dict) else {}, loc)
    interp.made = made  # it is no code of its own
    return elapsed.time_of(interp, interp.trace.events[start:])
