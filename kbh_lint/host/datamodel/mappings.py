"""Methods of dicts and sets."""

from __future__ import annotations

from copy import copy

from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import iteration, subscripts
from kbh_lint.host.values import bounds, keys, unknowns
from kbh_lint.host.values.containers import Keys
from kbh_lint.host.values.modelled import Methods, Site, models
from kbh_lint.host.values.tensors import Unknown

# Methods that look at one key, however large a dict is.
_BY_KEY = frozenset("__getitem__ __setitem__ __contains__ __delitem__ get setdefault pop popitem".split())


class Dicts(Methods[dict[Value, Value]]):
    """Dicts."""

    def call(self, site: Site, owner: dict[Value, Value]) -> Value:
        """Calls a method of a dict; its cost in fuel grows with the dict, but for methods that look up one key."""
        if site.name not in _BY_KEY:
            bounds.visited(site.run, owner)
        return super().call(site, owner)

    @models("__getitem__")
    def getitem(self, site: Site, owner: dict[Value, Value], key: Value, /) -> Value:
        """Models `dict.__getitem__`: `owner[key]`."""
        return subscripts.get_item(site.run, owner, key, site.loc)

    @models("__setitem__")
    def setitem(self, site: Site, owner: dict[Value, Value], key: Value, value: Value, /) -> None:
        """Models `dict.__setitem__`: `owner[key] = value`."""
        subscripts.set_item(site.run, owner, key, value, site.loc)

    @models("__contains__")
    def contains(self, site: Site, owner: dict[Value, Value], key: Value, /) -> Value:
        """Models `dict.__contains__`: `key in owner`."""
        return subscripts.contains(site.run, owner, key)

    @models("__delitem__")
    def delitem(self, site: Site, owner: dict[Value, Value], key: Value, /) -> None:
        """Models `dict.__delitem__`: `del owner[key]`."""
        if owner.pop(keys.held_key(site.run, owner, key), keys.MISSING) is keys.MISSING:
            site.run.may_fail("KeyError", site.loc)

    @models("get")
    def get(self, site: Site, owner: dict[Value, Value], key: Value, default: Value = None) -> Value:
        """Models `dict.get(key, default)`."""
        found = keys.find_key(site.run, owner, key)
        return default if found is keys.MISSING else found

    @models("setdefault")
    def setdefault(self, site: Site, owner: dict[Value, Value], key: Value, default: Value = None) -> Value:
        """Models `dict.setdefault(key, default)`."""
        found = keys.find_key(site.run, owner, key)
        if found is keys.MISSING:
            keys.store(site.run, owner, key, default)
            return default
        return found

    @models("items")
    def items(self, site: Site, owner: dict[Value, Value]) -> Value:
        """Models `dict.items()`: pairs of keys and values."""
        return list(owner.items())

    @models("keys")
    def every_key(self, site: Site, owner: dict[Value, Value]) -> Value:
        """Models `dict.keys()`."""
        return Keys(owner)

    @models("values")
    def values(self, site: Site, owner: dict[Value, Value]) -> Value:
        """Models `dict.values()`."""
        return list(owner.values())

    @models("update")
    def update(self, site: Site, owner: dict[Value, Value], /, *others: Value, **named: Value) -> None:
        """Models `dict.update(...)`."""
        for arg in others:
            if isinstance(arg, dict):
                owner.update(arg)
            elif isinstance(arg, (list, tuple)):
                owner.update({keys.check_key(p[0]): p[1] for p in arg if isinstance(p, (tuple, list)) and len(p) == 2})
        owner.update(named)

    @models("pop")
    def pop(self, site: Site, owner: dict[Value, Value], key: Value, default: Value = keys.MISSING) -> Value:
        """Models `dict.pop(key, default)`."""
        held = keys.held_key(site.run, owner, key)
        if held is keys.MISSING and default is keys.MISSING:
            site.run.may_fail("KeyError", site.loc)
        return owner.pop(held, Unknown() if default is keys.MISSING else default)

    @models("popitem")
    def popitem(self, site: Site, owner: dict[Value, Value], last: Value = True) -> Value:
        """Models `dict.popitem()`: removes and returns the last entry, or with `last=False` the first."""
        if not owner:
            site.run.may_fail("KeyError", site.loc)
            return Unknown()
        key = next(iter(owner)) if last is False else next(reversed(owner))
        return key, owner.pop(key)

    @models("clear")
    def clear(self, site: Site, owner: dict[Value, Value]) -> None:
        """Models `dict.clear()`."""
        owner.clear()

    @models("copy")
    def copy(self, site: Site, owner: dict[Value, Value]) -> Value:
        """Models `dict.copy()`."""
        return copy(owner)

    @models("move_to_end")
    def move_to_end(self, site: Site, owner: dict[Value, Value], key: Value, last: Value = True) -> None:
        """Models `OrderedDict.move_to_end(key, last)`."""
        held_key = keys.held_key(site.run, owner, key)
        if held_key is not keys.MISSING:
            held = {held_key: owner.pop(held_key)}
            rest = dict(owner) if last is False else {}
            if rest:
                owner.clear()
            owner.update(held)
            owner.update(rest)

    def other(self, site: Site, owner: dict[Value, Value]) -> Value:
        """Answers a call of a method without a model (`Methods.other`): an unknown value."""
        return Unknown((), site.path)


class _Sets(Methods[set[Value]]):
    """Sets."""

    @models("add")
    def add(self, site: Site, owner: set[Value], elem: Value, /) -> None:
        """Models `set.add(item)`."""
        keys.distinct(site.run, [elem], owner)

    @models("clear", "intersection_update", "difference_update")
    def lessened(self, site: Site, owner: set[Value], /, *others: Value) -> None:
        """Models `set.clear()`, `intersection_update` and `difference_update`."""
        getattr(owner, site.name)(*self._sets(site, others))

    @models("discard", "remove")
    def discard(self, site: Site, owner: set[Value], elem: Value, /) -> None:
        """Models `set.discard(item)` and `set.remove(item)`."""
        held = keys.held_key(site.run, owner, elem)
        if site.name == "remove" and held is keys.MISSING:
            site.run.may_fail("KeyError", site.loc)
        owner.discard(held)

    @models("update")
    def update(self, site: Site, owner: set[Value], /, *others: Value) -> None:
        """Models `set.update(*others)`."""
        for held in self._sets(site, others):
            owner.update(held)

    @models("pop")
    def pop(self, site: Site, owner: set[Value]) -> Value:
        """Models `set.pop()`: removes and returns one item, always the same one of equal sets."""
        if not owner:
            site.run.may_fail("KeyError", site.loc)
            return Unknown()
        taken = min(owner, key=repr)  # which one, nobody knows; the same each time
        owner.discard(taken)
        return taken

    @models(
        *("union", "intersection", "difference", "symmetric_difference"),
        *("issubset", "issuperset", "isdisjoint", "copy"),
    )
    def compared(self, site: Site, owner: set[Value], /, *others: Value) -> Value:
        """Models methods that make a new set or a truth value of sets: `union`, `issubset` and the like."""
        sets = self._sets(site, others)
        unsure = any(isinstance(item, Unknown) for held in (owner, *sets) for item in held)
        if unsure and site.name not in ("union", "copy"):
            return unknowns.merged(site.run, list(owner), *map(list, sets), why="a set of what nobody knows")
        return getattr(owner, site.name)(*sets)

    def _sets(self, site: Site, others: tuple[Value, ...]) -> list[set[Value]]:
        return [set(map(keys.check_key, iteration.materialise(site.run, other, site.loc))) for other in others]

    def other(self, site: Site, owner: set[Value]) -> Value:
        """Answers a call of a method without a model (`Methods.other`): an unknown value."""
        return Unknown((), site.path)


DICTS = Dicts()
SETS = _Sets()
