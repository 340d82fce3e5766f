"""What a program times its own variants with: events, timers, `do_bench`, and statistics of times (`elapsed`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import elapsed
from kbh_lint.host.effects import decoding
from kbh_lint.host.values.named_objects import GpuEvent
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_RUNS = frozenset("timeit blocked_autorange adaptive_autorange repeat autorange".split())
_TIMERS = {"torch.utils.benchmark.Timer": True, "timeit.Timer": False}  # whether they give a measurement of their own


def call(interp: Run, function: Value, args: list[Any], loc: ir.Loc | None) -> Any:
    """The time that a call took."""
    start = len(interp.trace.events)
    interp.call(function, args, {}, loc)
    return elapsed.took(interp, interp.trace.events[start:])


def timed(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """triton.testing.do_bench and timeit.timeit: the time of a function or of a text."""
    names = ("fn",) if path.startswith("triton") else ("stmt", "setup", "timer", "number", "globals")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    return _of(interp, given.get(names[0]), given.get("globals"), loc)


def method(interp: Run, owner: LibObject, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """The times that events and timers tell; NotImplemented for all else."""
    if isinstance(owner, GpuEvent) and name == "record":
        owner.attrs["at"] = len(interp.trace.events)
    elif isinstance(owner, GpuEvent) and name == "elapsed_time" and args and isinstance(args[0], LibObject):
        start, end = owner.attrs.get("at"), args[0].attrs.get("at")
        return elapsed.took(interp, interp.trace.events[start:end] if start is not None and end is not None else ())
    elif owner.path in _TIMERS and name in _RUNS:
        given = {**dict(zip(("stmt", "setup", "timer", "globals"), owner.args, strict=False)), **owner.kwargs}
        time = _of(interp, given.get("stmt"), given.get("globals"), loc)
        told = dict.fromkeys(("median", "mean", "iqr"), time)
        measured = LibObject("torch.utils.benchmark.Measurement", {**told, "times": [time]})
        return measured if _TIMERS[owner.path] else time
    return NotImplemented


def statistic(path: str, args: list[Any]) -> Any:
    """A function of statistics or numpy on a list of times; NotImplemented on anything else."""
    items = args[0] if args and isinstance(args[0], (list, tuple)) else ()
    found = _STATISTICS.get(path.rpartition(".")[2])
    if found is None or not items or not all(isinstance(item, elapsed.Measured) for item in items):
        return NotImplemented
    return found(items)


_STATISTICS: dict[str, Callable[[Sequence[float]], Any]] = {
    "argmin": lambda items: items.index(min(items)), "argmax": lambda items: items.index(max(items)),
    "min": min, "max": max, "amin": min, "amax": max, "median": lambda items: sorted(items)[len(items) // 2],
    "mean": lambda items: sum(items) / len(items), "fmean": lambda items: sum(items) / len(items),
}  # fmt: skip


def _of(interp: Run, function: Value, scope: Value, loc: ir.Loc | None) -> Any:
    if not isinstance(function, str):
        return call(interp, function, [], loc) if function is not None else Unknown((), "a time")
    start, made = len(interp.trace.events), interp.made
    decoding.execute(interp, function, dict(scope) if isinstance(scope, dict) else {}, loc)
    interp.made = made  # it is no code of its own
    return elapsed.took(interp, interp.trace.events[start:])
