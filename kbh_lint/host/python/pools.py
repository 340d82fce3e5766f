"""Pools of threads and processes: what they are given runs beside the caller until something asks for its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import iteration
from kbh_lint.host.python import lanes
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.modelled import Methods, Owner, Rows, Site, models
from kbh_lint.host.values.named_objects import Pool, PoolFuture
from kbh_lint.host.values.objects import LibObject, NamedTuple

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_STARRED = frozenset(("starmap", "starmap_async"))


class _Pools(Methods[Owner]):
    """Pools of concurrent.futures and of multiprocessing."""

    @models("submit")
    def submit(self, site: Site, owner: LibObject, fn: Value, /, *args: Value, **kwargs: Value) -> Value:
        """Models `executor.submit(fn, ...)`: returns a future."""
        return self._one(site, owner, fn, list(args), kwargs)

    @models("apply_async")
    def apply_async(
        self,
        site: Site,
        owner: LibObject,
        func: Value,
        args: Value = (),
        kwds: Value = None,
        *then: Value,
        **named: Value,
    ) -> Value:
        """Models `pool.apply_async(func, args, kwds)`: returns a future."""
        return self._one(site, owner, func, _listed(args), kwds)

    @models("apply")
    def apply(self, site: Site, owner: LibObject, func: Value, args: Value = (), kwds: Value = None) -> Value:
        """Models `pool.apply(func, args, kwds)`: waits for the result."""
        return lanes.result(site.run, self._one(site, owner, func, _listed(args), kwds))

    def _one(self, site: Site, owner: LibObject, target: Value, args: list[Value], named: Value) -> LibObject:
        kwargs = named if isinstance(named, dict) else {}
        future = start(site.run, site.loc, lambda lane: lanes.run(site.run, lane, target, args, kwargs, site.loc))
        _futures(owner).append(future)
        return future

    @models("map", "starmap", "imap", "imap_unordered", "map_async", "starmap_async")
    def each(self, site: Site, owner: LibObject, func: Value, iterable: Value, *more: Value, **options: Value) -> Value:
        """Models `pool.map(func, iterable)` and the like. multiprocessing's `map` waits for all results, `map_async`
        returns a future, and an iterator waits when it is gone through."""
        run, concurrent = site.run, owner.path.startswith("concurrent.")
        columns = [iteration.materialise(run, column, site.loc) for column in (iterable, *more)]
        starred = site.name in _STARRED
        rows: list[list[Value]] = (
            [list(row) for row in zip(*columns, strict=False)]
            if concurrent
            else [list(iteration.iterate(run, item, site.loc)) if starred else [item] for item in columns[0]]
        )

        def work(lane: LibObject) -> list[Value]:
            return [lanes.run(run, lane, func, row, {}, site.loc, bounded=False) for row in rows]

        future = start(run, site.loc, work)
        _futures(owner).append(future)
        if site.name.endswith("_async"):
            return future
        if not (concurrent or site.name.startswith("imap")):
            return lanes.result(run, future)
        made = Once()
        made.source = (item for future in (future,) for item in lanes.result(run, future))
        return made

    @models("close")
    def close(self, site: Site, owner: LibObject) -> None:
        """Models `pool.close()`: nothing is waited for."""

    @models("shutdown")
    def shutdown(self, site: Site, owner: LibObject, wait: Value = True, **options: Value) -> None:
        """Models `executor.shutdown(wait)`: waits for the work under way unless `wait` is False."""
        if wait is not False:
            self.join(site, owner)

    @models("join", "__exit__")
    def join(self, site: Site, owner: LibObject, *raised: Value) -> None:
        """Models `pool.join()` and `executor.__exit__(...)`: waits for all work under way."""
        for future in _futures(owner):
            site.run.lanes.wait(None, future)


METHODS: Rows = {Pool: _Pools()}


def _listed(args: Value) -> list[Value]:
    return list(args) if isinstance(args, (list, tuple)) else []


def _futures(owner: LibObject) -> list[LibObject]:
    """What a pool was given, in order."""
    found: list[LibObject] = owner.attrs.setdefault("futures", [])
    return found


def start(interp: Run, loc: ir.Loc | None, work: Callable[[LibObject], Any]) -> LibObject:
    """Starts `work` in a thread of a pool, at once; returns its future."""
    future = PoolFuture("future", {"loc": loc})
    future.attrs[lanes.GAVE] = work(future)
    return future


def completed(interp: Run, fs: Value, loc: ir.Loc | None) -> Once:
    """Models `concurrent.futures.as_completed(fs)`: the futures, each waited for."""
    futures = iteration.materialise(interp, fs, loc)
    for future in futures:
        interp.lanes.wait(None, future)
    return Once(futures)


def wait(interp: Run, fs: Value, timeout: Value, return_when: Value, loc: ir.Loc | None) -> NamedTuple:
    """Models `concurrent.futures.wait(fs)`: the sets of futures that are done and that are not."""
    futures = list(iteration.materialise(interp, fs, loc))
    count = len(futures) if "ALL" in getattr(return_when, "path", str(return_when)) else 1
    waits = count == len(futures)  # else it is one of them, and which one nobody knows
    if isinstance(timeout, (int, float)) and timeout < lanes.LONG_WAIT:
        waits = False
    for future in futures if waits else ():
        interp.lanes.wait(None, future)
    return NamedTuple({"done": set(futures[:count]), "not_done": set(futures[count:])})
