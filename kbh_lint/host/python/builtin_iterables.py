"""The built-in functions that make containers and iterators, or go through them."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.datamodel import containers, enums, exceptions, iteration, operators, ordering, subscripts
from kbh_lint.host.torch import whole_numbers
from kbh_lint.host.values import bounds, equality, keys, taint, unknowns
from kbh_lint.host.values.containers import Once, Some
from kbh_lint.host.values.frames import OutOfFuel, Raised
from kbh_lint.host.values.modelled import Builtin, Site, models
from kbh_lint.host.values.named_objects import Counting, Cycle
from kbh_lint.host.values.objects import ClassV, Instance, LibObject, Method, find_method, is_named_tuple, meta_method
from kbh_lint.host.values.tensors import Tensor, Unknown
from kbh_lint.source.embedded import doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


_NOTHING = object()


class Iterables(Builtin):
    """The built-in functions that make containers and iterators, or go through them."""

    @models("range")
    def range(self, site: Site, /, *bounds_of: Value) -> Value:
        """Models `range(...)`, of bounded length."""
        given = [unknowns.of_process(one) for one in bounds_of]
        if not all(isinstance(one, int) for one in given):
            if any(one is None or isinstance(one, (float, str, list, tuple)) for one in given):
                site.run.may_fail("TypeError", site.loc)
            return unknowns.merged(site.run, *given, why="a range")
        try:
            made = range(*given)
        except (TypeError, ValueError):
            return Unknown((), "a range")
        if len(made) <= containers.MAX_RANGE:
            return made
        return unknowns.merged(site.run, *given, why="a range past the bound")

    @models("len")
    def len(self, site: Site, value: Value, /) -> Value:
        """Models `len(value)`."""
        run = site.run
        if isinstance(value, Tensor):
            return value.shape[0] if value.shape else Unknown()
        if isinstance(value, Instance):
            return _length(site, value)
        if isinstance(value, ClassV):
            own = meta_method(value, "__len__")
            if own is not None:
                return run.call(own, [], {}, site.loc)
            return len(enums.members(value)) if enums.is_enum(value) else unknowns.merged(run, value)
        if isinstance(value, LibObject) and isinstance(value.attrs.get("items"), (list, dict)):
            return len(value.attrs["items"])
        if isinstance(value, Some):
            return unknowns.merged(run, *value, why="how many there are")
        if isinstance(value, (set, frozenset)) and len(value) > 1 and unknowns.of_set(value):
            return unknowns.merged(run, *unknowns.of_set(value), why="how many of them differ")
        if exceptions.plain(value) or isinstance(value, Once):
            run.may_fail("TypeError", site.loc)
        return len(value) if isinstance(value, Sized) and not doubts(value) else unknowns.merged(run, value)

    @models("max", "min")
    def extreme(self, site: Site, /, *values: Value, key: Value = None, default: Value = _NOTHING) -> Value:
        """Models `min(...)` and `max(...)`."""
        run, name = site.run, site.name
        items = list(iteration.materialise(run, values[0], site.loc)) if len(values) == 1 else list(values)
        if not items:
            if default is _NOTHING:
                run.may_fail("ValueError", site.loc)
            return Unknown() if default is _NOTHING else default
        if not all(map(bounds.is_small, items)):
            return unknowns.merged(run, *items[:2], why=name)
        if any(isinstance(i, (Unknown, Tensor)) for i in items):
            ends = None if site.kwargs else whole_numbers.extreme(name, items)
            return unknowns.merged(run, *items, why=name, ends=ends)

        def ordered(x: Value) -> Value:
            return ordering.key_of(run, x if key is None else run.call(key, [x], {}, site.loc), site.loc)

        try:
            return getattr(builtins, name)(items, key=ordered)
        except (Raised, OutOfFuel, MemoryError):
            raise
        except Exception:  # keys without an order: one of them stands for the answer
            return items[0]

    @models("sum")
    def sum(self, site: Site, iterable: Value, /, start: Value = 0) -> Value:
        """Models `sum(iterable, start)`."""
        total: Value = start
        items = iteration.materialise(site.run, iterable, site.loc)
        bounds.steps(site.run, len(items))
        for item in items:
            total = operators.binary(site.run, "+", total, item, site.loc)
        return total

    @models("all", "any")
    def truths(self, site: Site, iterable: Value, /) -> Value:
        """Models `all(iterable)` and `any(iterable)`."""
        run, every = site.run, site.name == "all"
        items = _until(run, iterable, every, site.loc)
        bounds.steps(run, len(items))
        read = [item for item in items if isinstance(item, Unknown) and item.contents]
        if len(read) > 1 and all(isinstance(item, Unknown) or bool(item) is every for item in items):
            return unknowns.merged(run, *read, why="all of many" if every else "likely: one of many", likely=not every)
        for item in items:
            if taint.symbol_of(item):
                return item
            if run.truth(item, site.loc) != every:
                return not every
        return every

    @models("list", "tuple", "set", "frozenset")
    def collected(self, site: Site, iterable: Value = (), /) -> Value:
        """Models `list(iterable)`, `tuple`, `set` and `frozenset`."""
        if isinstance(iterable, Unknown):
            return iterable
        items = iteration.materialise(site.run, iterable, site.loc)
        if isinstance(items, Some) and site.name == "list":
            return Some(items)
        return _CONTAINERS[site.name](keys.distinct(site.run, items) if site.name.endswith("set") else items)

    @models("dict")
    def dict(self, site: Site, given: Value = _NOTHING, /, **named: Value) -> Value:
        """Models `dict(...)`."""
        out: dict[Value, Value] = {}
        held = None if given is _NOTHING else subscripts.mapping(site.run, given, site.loc)
        if held is not None:
            out.update(bounds.visited(site.run, held))
        elif given is not _NOTHING:
            pairs = iteration.materialise(site.run, given, site.loc)
            out.update({keys.check_key(p[0]): p[1] for p in pairs if isinstance(p, (tuple, list)) and len(p) == 2})
        out.update(named)
        return out

    @models("enumerate")
    def enumerate(self, site: Site, iterable: Value, start: Value = 0) -> Value:
        """Models `enumerate(iterable, start)`."""
        first = start if isinstance(start, int) else 0
        if isinstance(iterable, Once):
            return _lazy(enumerate(iteration.in_turn(iterable), first))
        return Once(enumerate(iteration.materialise(site.run, iterable, site.loc), first))

    @models("zip")
    def zip(self, site: Site, /, *iterables: Value, strict: Value = False) -> Value:
        """Models `zip(*iterables)`."""
        if any(isinstance(one, Once) for one in iterables):
            return _lazy(zip(*_columns(site.run, iterables, site.loc), strict=False))
        columns = [iteration.materialise(site.run, one, site.loc) for one in iterables]
        if strict is True and len({len(column) for column in columns}) > 1:
            site.run.may_fail("ValueError", site.loc)
        return Once(zip(*columns, strict=False))

    @models("map")
    def map(self, site: Site, func: Value, /, *iterables: Value) -> Value:
        """Models `map(function, *iterables)`, evaluated item by item on demand."""
        rows = zip(*_columns(site.run, iterables, site.loc), strict=False)
        return _lazy(site.run.call(func, list(row), {}, site.loc) for row in rows)

    @models("filter")
    def filter(self, site: Site, func: Value, iterable: Value, /) -> Value:
        """Models `filter(function, iterable)`."""
        run, (items,) = site.run, _columns(site.run, (iterable,), site.loc)
        return _lazy(i for i in items if run.truth(i if func is None else run.call(func, [i], {}, site.loc), site.loc))

    @models("sorted")
    def sorted(self, site: Site, iterable: Value, /, *, key: Value = None, reverse: Value = False) -> Value:
        """Models `sorted(iterable, key, reverse)`."""
        given = iteration.materialise(site.run, iterable, site.loc)
        items = Some(given) if isinstance(given, Some) else list(given)
        containers.sort_items(site.run, items, key, reverse, site.loc)
        return items

    @models("reversed")
    def reversed(self, site: Site, sequence: Value, /) -> Value:
        """Models `reversed(sequence)`."""
        own = find_method(sequence, "__reversed__") if isinstance(sequence, Instance) else None
        if own is not None:
            return site.run.call(own, [], {}, site.loc)
        return Once(reversed(list(iteration.materialise(site.run, sequence, site.loc))))

    @models("iter")
    def iter(self, site: Site, source: Value = (), sentinel: Value = _NOTHING, /) -> Value:
        """Models `iter(iterable)` and `iter(callable, sentinel)`."""
        if sentinel is not _NOTHING:
            return _lazy(_calls_until(site.run, source, sentinel, site.loc))
        if isinstance(source, Once):
            return source
        items = iteration.materialise(site.run, source, site.loc)
        return list(items) if isinstance(source, (Unknown, Tensor)) else Once(items)

    @models("next")
    def next(self, site: Site, iterator: Value, default: Value = _NOTHING, /) -> Value:
        """Models `next(iterator, default)`."""
        if isinstance(iterator, (Counting, Cycle)):
            return site.run.call(Method(iterator, "__next__"), [], {}, site.loc)
        own = find_method(iterator, "__next__") if isinstance(iterator, Instance) else None
        if own is not None:
            return site.run.call(own, [], {}, site.loc)
        if isinstance(iterator, Once) and not len(iterator):
            iterator.more()
        items = iterator if isinstance(iterator, Once) else iteration.iterate(site.run, iterator, site.loc)
        if isinstance(items, list) and len(items):
            return items.pop(0)
        if not len(items) and default is _NOTHING:
            iteration.ended(site.run, items, site.loc)
        return items[0] if len(items) else Unknown() if default is _NOTHING else default


_CONTAINERS: dict[str, Callable[[Any], Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


def _length(site: Site, value: Instance) -> Value:
    """len() of an object of the submission."""
    found = find_method(value, "__len__")
    if found is not None:
        return site.run.call(found, [], {}, site.loc)
    if value.items is not None:
        return len(value.items)
    return len(value.cls.field_names()) if is_named_tuple(value) else Unknown()


def _until(interp: Run, value: Value, every: bool, loc: ir.Loc | None) -> Sequence[Value]:
    """The items that any() or all() looks at: of an iterator, those up to the first that decides."""
    if not isinstance(value, Once):
        return iteration.materialise(interp, value, loc)
    items: list[Any] = []
    for item in iteration.in_turn(value):
        interp.burn()
        items.append(item)
        if type(item) in (bool, int, str, type(None)) and bool(item) is not every:
            break
    return items


def _lazy(source: Iterator[Any]) -> Once:
    made = Once()
    made.source = source
    return made


def _columns(interp: Run, args: Sequence[Value], loc: ir.Loc | None) -> list[Any]:
    """The items of several iterables, of an iterator as they are asked for."""
    return [iteration.in_turn(a) if isinstance(a, Once) else iteration.materialise(interp, a, loc) for a in args]


def _calls_until(interp: Run, func: Value, end: Value, loc: ir.Loc | None) -> Iterator[Value]:
    """iter(function, sentinel): what calls give, until one gives the sentinel."""
    while True:
        interp.burn()
        try:
            item = interp.call(func, [], {}, loc)
        except Raised as error:
            if not exceptions.catches(interp, Sym("builtins.StopIteration"), error.value):
                raise
            return
        if interp.truth(equality.same(interp, item, end), loc):
            return
        yield item
