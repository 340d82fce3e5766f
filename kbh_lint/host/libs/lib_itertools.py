"""itertools: what its iterators give, as far as that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Func, Value
from kbh_lint.host.datamodel import containers, iteration, operators
from kbh_lint.host.values import bounds, equality
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.modelled import Methods, Rows, Site, models
from kbh_lint.host.values.named_objects import Counting, Cycle
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    import itertools

    name = path.rsplit(".", 1)[-1]
    if name == "count":
        start = args[0] if args else kwargs.get("start", 0)
        return LibObject.by_path(
            "itertools.count", {"value": start, "step": args[1] if len(args) > 1 else kwargs.get("step", 1)}
        )
    if name in _CALLING:
        return Once(_calling(interp, name, args, kwargs, loc))
    if name == "repeat" and args:
        times = args[1] if len(args) > 1 else kwargs.get("times")
        bounds.items(interp, times if isinstance(times, int) else 0)
        return Once([args[0]] * times) if isinstance(times, int) else Unknown((), path)
    if name == "islice" and len(args) > 1 and isinstance(args[0], Once):
        return _cut(args[0], args[1:])
    if name == "tee" and args:
        items = iteration.materialise(interp, args[0], loc)
        return tuple(Once(items) for _ in range(args[1] if len(args) > 1 and args[1] in range(8) else 2))
    if name == "cycle" and args:
        return Cycle("itertools.cycle", {"items": list(iteration.materialise(interp, args[0], loc)), "at": 0})
    rows = [list(iteration.materialise(interp, a, loc)) if not isinstance(a, (int, Func)) else a for a in args]
    if name in ("product", "chain", "zip_longest", "permutations", "combinations", "islice", "pairwise"):
        if name == "zip_longest" and "fillvalue" in kwargs:
            filled = [row for row in rows if isinstance(row, list)]
            return Once(tuple(row) for row in itertools.zip_longest(*filled, fillvalue=kwargs["fillvalue"]))
        repeat = {"repeat": kwargs["repeat"]} if isinstance(kwargs.get("repeat"), int) and kwargs["repeat"] < 8 else {}
        # an item is as wide as there are rows, or as the one row that is permuted
        wide = 8 * max(len(rows), *(len(r) for r in rows[:1] if isinstance(r, list) and name.endswith("tions")), 1)
        return bounds.visited(
            interp, Once(itertools.islice(getattr(itertools, name)(*rows, **repeat), bounds.MAX_ITEMS // wide))
        )
    if name == "compress" and len(rows) == 2:
        return Once(item for item, kept in zip(*rows, strict=False) if interp.truth(kept, loc))
    if name == "batched" and len(args) == 2 and type(args[1]) is int and isinstance(rows[0], list):
        items, size = rows[0], max(args[1], 1)
        return Once(tuple(items[i : i + size]) for i in range(0, len(items), size))
    if name == "groupby" and isinstance(rows[0], list):
        return Once(_groups(interp, rows[0], args[1] if len(args) > 1 else kwargs.get("key"), loc))
    if name == "from_iterable" and isinstance(rows[0], list):
        return Once(x for row in rows[0] for x in iteration.materialise(interp, row, loc))
    return Unknown((), path)


def _groups(interp: Run, items: list[Any], key: Value, loc: ir.Loc | None) -> list[tuple[Any, Once]]:
    """itertools.groupby."""
    found: list[tuple[Any, Once]] = []
    for item in items:
        named = item if key is None else interp.call(key, [item], {}, loc)
        if found and interp.truth(equality.same(interp, found[-1][0], named), loc):
            found[-1][1].append(item)
        else:
            found.append((named, Once([item])))
    return found


def _cut(once: Once, ends: list[Any]) -> Any:
    """itertools.islice of an iterator, from which it takes no more than it has to."""
    if not all(end is None or type(end) is int and end >= 0 for end in ends) or ends[2:] == [0]:
        return Unknown((), "itertools.islice")
    cut = slice(*ends)
    while cut.stop is None or len(once) < cut.stop:
        if not once.more():
            break
    made = Once(once[cut])
    del once[: cut.stop]
    return made


_CALLING = frozenset(("starmap", "accumulate", "takewhile", "dropwhile", "filterfalse"))


def _calling(interp: Run, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """The functions of itertools that call a function of the submission for each item."""
    if name == "accumulate":
        func = args[1] if len(args) > 1 else kwargs.get("func")
        out: list[Any] = [] if kwargs.get("initial") is None else [kwargs["initial"]]
        for item in iteration.materialise(interp, args[0], loc):
            interp.burn()
            pair = [out[-1], item] if out else []
            added = operators.binary(interp, "+", pair[0], pair[1], loc) if pair and func is None else None
            out.append(item if not pair else added if func is None else interp.call(func, pair, {}, loc))
        return out
    items = iteration.materialise(interp, args[1], loc) if len(args) > 1 else ()
    if name == "starmap":
        return [interp.call(args[0], list(iteration.iterate(interp, item, loc)), {}, loc) for item in items]
    holds = [interp.truth(interp.call(args[0], [item], {}, loc), loc) for item in items]
    if name == "filterfalse":
        return [item for item, held in zip(items, holds, strict=True) if not held]
    end = holds.index(False) if False in holds else len(holds)
    return list(items[:end] if name == "takewhile" else items[end:])


class _Counts(Methods):
    """`itertools.count` and `itertools.cycle`."""

    @models("__next__")
    def following(self, site: Site, owner: LibObject) -> Value:
        """`next()` of one."""
        if isinstance(owner, Cycle):
            items, at = owner.attrs["items"], owner.attrs["at"]
            owner.attrs["at"] = at + 1
            return items[at % len(items)] if items else Unknown()
        value = owner.attrs["value"]
        owner.attrs["value"] = operators.binary(site.run, "+", value, owner.attrs["step"], site.loc)
        return value


METHODS: Rows = {Counting: _Counts(), Cycle: _Counts()}


def count_range(owner: LibObject) -> range | None:
    """What a loop over an itertools.count sees."""
    start, step = owner.attrs["value"], owner.attrs["step"]
    known = isinstance(start, int) and isinstance(step, int) and step
    return range(start, start + step * containers.MAX_RANGE, step) if known else None
