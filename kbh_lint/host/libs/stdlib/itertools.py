"""itertools: what its iterators give, as far as that is known."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base.values import Func, Value
from kbh_lint.host.datamodel import containers, iteration, operators
from kbh_lint.host.values import bounds, equality
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.modelled import Library, Methods, Owner, Rows, Site, models
from kbh_lint.host.values.named_objects import Counting, Cycle
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    pass


class Itertools(Library):
    """The module `itertools`, whose iterators are lists that are used up."""

    @models("count")
    def count(self, site: Site, start: Value = 0, step: Value = 1) -> Value:
        """Models `itertools.count(start, step)`."""
        return LibObject.by_path("itertools.count", {"value": start, "step": step})

    @models("cycle")
    def cycle(self, site: Site, iterable: Value) -> Value:
        """Models `itertools.cycle(iterable)`."""
        return Cycle("itertools.cycle", {"items": _list(site, iterable), "at": 0})

    @models("repeat")
    def repeat(self, site: Site, object: Value, times: Value = None) -> Value:
        """Models `itertools.repeat(object, times)`."""
        bounds.items(site.run, times if isinstance(times, int) else 0)
        return Once([object] * times) if isinstance(times, int) else self.other(site)

    @models("tee")
    def tee(self, site: Site, iterable: Value, n: Value = 2) -> Value:
        """Models `itertools.tee(iterable, n)`."""
        items = iteration.materialise(site.run, iterable, site.loc)
        return tuple(Once(items) for _ in range(n if isinstance(n, int) and n in range(8) else 2))

    @models("islice")
    def islice(self, site: Site, iterable: Value, *ends: Value) -> Value:
        """Models `itertools.islice(iterable, ...)`."""
        if ends and isinstance(iterable, Once):
            return _cut(iterable, list(ends))
        return self._real(site, (iterable, *ends), {})

    @models("chain", "pairwise")
    def chain(self, site: Site, *iterables: Value) -> Value:
        """Models `itertools.chain(*iterables)` and `pairwise(iterable)`."""
        return self._real(site, iterables, {})

    @models("product")
    def product(self, site: Site, *iterables: Value, repeat: Value = 1) -> Value:
        """Models `itertools.product(*iterables, repeat)`."""
        return self._real(site, iterables, {"repeat": repeat} if isinstance(repeat, int) and 1 != repeat < 8 else {})

    @models("permutations", "combinations")
    def chosen(self, site: Site, iterable: Value, r: Value = None) -> Value:
        """Models `itertools.combinations(iterable, r)`, `permutations` and the like."""
        return self._real(site, (iterable,) if r is None else (iterable, r), {})

    @models("zip_longest")
    def zip_longest(self, site: Site, *iterables: Value, fillvalue: Value = None) -> Value:
        """Models `itertools.zip_longest(*iterables, fillvalue)`."""
        rows = [_list(site, iterable) for iterable in iterables]
        return Once(tuple(row) for row in itertools.zip_longest(*rows, fillvalue=fillvalue))

    @models("compress")
    def compress(self, site: Site, data: Value, selectors: Value) -> Value:
        """Models `itertools.compress(data, selectors)`."""
        rows = _list(site, data), _list(site, selectors)
        return Once(item for item, kept in zip(*rows, strict=False) if site.run.truth(kept, site.loc))

    @models("batched")
    def batched(self, site: Site, iterable: Value, n: Value) -> Value:
        """Models `itertools.batched(iterable, n)`."""
        if type(n) is not int or isinstance(iterable, (int, Func)):
            return self.other(site)
        items, size = _list(site, iterable), max(n, 1)
        return Once(tuple(items[i : i + size]) for i in range(0, len(items), size))

    @models("groupby")
    def groupby(self, site: Site, iterable: Value, key: Value = None) -> Value:
        """Models `itertools.groupby(iterable, key)`."""
        found: list[tuple[Value, Once]] = []
        for item in _list(site, iterable):
            named = item if key is None else site.run.call(key, [item], {}, site.loc)
            if found and site.run.truth(equality.same(site.run, found[-1][0], named), site.loc):
                found[-1][1].append(item)
            else:
                found.append((named, Once([item])))
        return Once(found)

    @models("from_iterable")
    def from_iterable(self, site: Site, iterable: Value) -> Value:
        """Models `itertools.chain.from_iterable(iterable)`."""
        return Once(x for row in _list(site, iterable) for x in iteration.materialise(site.run, row, site.loc))

    @models("starmap")
    def starmap(self, site: Site, function: Value, iterable: Value) -> Value:
        """Models `itertools.starmap(function, iterable)`."""
        return Once(
            site.run.call(function, list(iteration.iterate(site.run, item, site.loc)), {}, site.loc)
            for item in iteration.materialise(site.run, iterable, site.loc)
        )

    @models("accumulate")
    def accumulate(self, site: Site, iterable: Value, func: Value = None, *, initial: Value = None) -> Value:
        """Models `itertools.accumulate(iterable, func)`."""
        out: list[Value] = [] if initial is None else [initial]
        for item in iteration.materialise(site.run, iterable, site.loc):
            site.run.burn()
            if not out:
                out.append(item)
            elif func is None:
                out.append(operators.binary(site.run, "+", out[-1], item, site.loc))
            else:
                out.append(site.run.call(func, [out[-1], item], {}, site.loc))
        return Once(out)

    @models("takewhile", "dropwhile", "filterfalse")
    def held(self, site: Site, predicate: Value, iterable: Value) -> Value:
        """Models `itertools.takewhile`, `dropwhile` and `filterfalse` of a predicate and an iterable."""
        run, items = site.run, iteration.materialise(site.run, iterable, site.loc)
        holds = [run.truth(run.call(predicate, [item], {}, site.loc), site.loc) for item in items]
        if site.name == "filterfalse":
            return Once(item for item, held in zip(items, holds, strict=True) if not held)
        end = holds.index(False) if False in holds else len(holds)
        return Once(items[:end] if site.name == "takewhile" else items[end:])

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): an unknown value."""
        return Unknown((), site.path)

    def _real(self, site: Site, given: Sequence[Value], named: dict[str, int]) -> Value:
        """What the function itself makes of lists, within bounds."""
        rows = [one if isinstance(one, (int, Func)) else _list(site, one) for one in given]
        # an item is as wide as there are rows, or as the one row that is permuted
        permuted = [len(row) for row in rows[:1] if isinstance(row, list) and site.name.endswith("tions")]
        made = getattr(itertools, site.name)(*rows, **named)
        wide = 8 * max(len(rows), *permuted, 1)
        return bounds.visited(site.run, Once(itertools.islice(made, bounds.MAX_ITEMS // wide)))


def _list(site: Site, iterable: Value) -> list[Value]:
    return list(iteration.materialise(site.run, iterable, site.loc))


def _cut(once: Once, ends: list[Any]) -> Value:
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


class _Counts(Methods[Owner]):
    """`itertools.count` and `itertools.cycle`."""

    @models("__next__")
    def following(self, site: Site, owner: LibObject) -> Value:
        """Models `next()` of an `itertools.count` or `cycle`."""
        if isinstance(owner, Cycle):
            items, at = owner.attrs["items"], owner.attrs["at"]
            owner.attrs["at"] = at + 1
            return items[at % len(items)] if items else Unknown()
        value = owner.attrs["value"]
        owner.attrs["value"] = operators.binary(site.run, "+", value, owner.attrs["step"], site.loc)
        return value


METHODS: Rows = {Counting: _Counts(), Cycle: _Counts()}


def count_range(owner: LibObject) -> range | None:
    """Returns the numbers of an itertools.count, up to a bound, as a loop sees them; None where they are not known."""
    start, step = owner.attrs["value"], owner.attrs["step"]
    known = isinstance(start, int) and isinstance(step, int) and step
    return range(start, start + step * containers.MAX_RANGE, step) if known else None
