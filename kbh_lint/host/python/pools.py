"""Pools of threads and processes: what they are given runs beside the caller until something asks for its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.host.datamodel import iteration
from kbh_lint.host.python import lanes
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.named_objects import PoolFuture, Thread
from kbh_lint.host.values.objects import LibObject, NamedTuple

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_STARRED = frozenset(("starmap", "starmap_async"))
_ONE = frozenset(("submit", "apply_async", "apply"))
_MANY = frozenset(("map", "starmap", "imap", "imap_unordered", "map_async", "starmap_async"))


def method(
    interp: Run, owner: LibObject, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """A method of a pool of concurrent.futures or of multiprocessing; NotImplemented for those that do no work."""
    futures: list[LibObject] = owner.attrs.setdefault("futures", [])
    if name in _ONE and args:
        given = args[1:] if name == "submit" else list(args[1]) if len(args) > 1 else []
        named = kwargs if name == "submit" else kwargs.get("kwds", args[2] if len(args) > 2 else {})
        target = args[0]
        future = start(interp, loc, lambda lane: lanes.run(interp, lane, target, given, named, loc))
        futures.append(future)
        return lanes.result(interp, future) if name == "apply" else future
    if name in _MANY and len(args) > 1:
        return _each(interp, owner, name, args, loc)
    if name == "close" or name == "shutdown" and (args[0] if args else kwargs.get("wait", True)) is False:
        return None  # nothing more comes in; nothing is waited for
    if name in ("shutdown", "join", "__exit__"):
        for future in futures:
            interp.lanes.wait(None, future)
        return None
    return NotImplemented


def _each(interp: Run, owner: LibObject, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """A function on many items. multiprocessing's `map` waits for all of them, `map_async` gives a future, and an
    iterator waits when it is gone through."""
    own_iterator = owner.path.startswith("concurrent.") or name.startswith("imap")
    columns = [iteration.materialise(interp, arg, loc) for arg in args[1:]]
    rows: list[list[Any]] = (
        [list(row) for row in zip(*columns, strict=False)]
        if owner.path.startswith("concurrent.")
        else [list(iteration.iterate(interp, item, loc)) if name in _STARRED else [item] for item in columns[0]]
    )

    def work(lane: LibObject) -> list[Any]:
        return [lanes.run(interp, lane, args[0], row, {}, loc, bounded=False) for row in rows]

    future = start(interp, loc, work)
    owner.attrs["futures"].append(future)
    if name.endswith("_async"):
        return future
    if not own_iterator:
        return lanes.result(interp, future)
    made = Once()
    made.source = (item for future in (future,) for item in lanes.result(interp, future))
    return made


def start(interp: Run, loc: ir.Loc | None, work: Callable[[LibObject], Any]) -> LibObject:
    """Work that begins at once in a thread of a pool, as a future."""
    future = PoolFuture("future", {"loc": loc})
    future.attrs[lanes.GAVE] = work(future)
    return future


def completed(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """concurrent.futures.as_completed: the futures, each waited for."""
    futures = iteration.materialise(interp, args[0], loc) if args else []
    for future in futures:
        interp.lanes.wait(None, future)
    return Once(futures)


def wait(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """concurrent.futures.wait(futures, timeout, return_when): the sets of those that are done and that are not."""
    given = {**dict(zip(("fs", "timeout", "return_when"), args, strict=False)), **kwargs}
    futures = list(iteration.materialise(interp, given.get("fs", []), loc))
    seconds = given.get("timeout")
    first = "ALL" not in getattr(given.get("return_when"), "path", str(given.get("return_when", "ALL")))
    count = 1 if first else len(futures)
    waits = count == len(futures)  # else it is one of them, and which one nobody knows
    if isinstance(seconds, (int, float)) and seconds < lanes.LONG_WAIT:
        waits = False
    for future in futures if waits else ():
        interp.lanes.wait(None, future)
    done, left = set(futures[:count]), set(futures[count:])
    return NamedTuple({"done": done, "not_done": left})


def start_new_thread(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """_thread.start_new_thread(function, args, kwargs): nothing can wait for it."""
    if args:
        given = list(args[1]) if len(args) > 1 and isinstance(args[1], (list, tuple)) else []
        named = args[2] if len(args) > 2 and isinstance(args[2], dict) else {}
        lanes.run(interp, Thread("_thread.start_new_thread", {"loc": loc}), args[0], given, named, loc)
    return interp.process.id
