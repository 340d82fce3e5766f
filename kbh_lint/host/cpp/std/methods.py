"""Methods of C++'s containers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kbh_lint.base.values import Func, Sym, Value
from kbh_lint.host.cpp import copies
from kbh_lint.host.cpp.std import removing, unread
from kbh_lint.host.cpp.std.containers import (
    END,
    Entries,
    Keys,
    Objects,
    SoMany,
    end_of,
    hashed,
    in_order,
    iterator,
)
from kbh_lint.host.values import bounds, keys
from kbh_lint.host.values.containers import Tensors
from kbh_lint.host.values.cpp_objects import CStruct, Pointer
from kbh_lint.host.values.modelled import Methods, Site, models
from kbh_lint.host.values.tensors import Unknown


class _Lists(Methods[list[Value]]):
    """std::vector and its like."""

    @models("push_back", "append", "push_front")
    def push_back(self, site: Site, owner: list[Value], value: Value, /) -> None:
        """Models `push_back(value)`: adds an element at an end; a braced list is made an object of the element
        class."""
        braces = value if type(value) is list else None
        objects = owner if isinstance(owner, Objects) and owner.made is not tuple else None
        at = 0 if site.name == "push_front" else len(owner)
        owner.insert(at, value if braces is None or objects is None else objects.made(braces))

    @models("emplace_back", "emplace_front")
    def emplace_back(self, site: Site, owner: list[Value], /, *given: Value) -> Value:
        """Models `emplace_back(args...)`: adds an element constructed from the arguments at an end."""
        own = (
            isinstance(owner, Objects) and owner.made is not tuple and not isinstance(next(iter(given), None), CStruct)
        )
        made = isinstance(owner, Objects) and (len(given) > 1 or own)
        added = [owner.made(list(given))] if made and isinstance(owner, Objects) else given[:1]
        at = 0 if site.name == "emplace_front" else len(owner)
        owner[at:at] = added
        return added[0] if added else None

    @models("pop_front")
    def pop_front(self, site: Site, owner: list[Value]) -> Value:
        """Models `pop_front()`: removes the first element."""
        return owner.pop(0) if owner else None

    @models("splice")
    def splice(self, site: Site, owner: list[Value], at: Value, other: Value, /, *given: Value) -> Value:
        """Models `splice(at, other)` and `splice(at, other, iterator)`: elements move from one list to another, or
        within one."""
        to = removing.place_in(owner, at)
        if to is None or not isinstance(other, list):
            return self.changed(site, owner)
        earlier = len(other) > 1 and bool(given) and given[0] is other  # `begin()`, perhaps of some time ago
        since = removing.place_in(other, given[0]) if len(given) == 1 and not earlier else None
        if given and since is None:
            return self.changed(site, owner)
        moved = other[since : since + 1] if since is not None else [*other]
        del other[since if since is not None else 0 : since + 1 if since is not None else None]
        to -= other is owner and since is not None and since < to
        owner[to:to] = moved
        return None

    @models("erase")
    def erase(self, site: Site, owner: list[Value], at: Value, /, *given: Value) -> Value:
        """Models `erase(iterator)` and `erase(first, last)`: removes elements; where these are not known, nothing is
        known of any."""
        if given:
            return Unknown((), site.name) if removing.erased(owner, at, given[0]) else self.changed(site, owner)
        place = removing.place_in(owner, at)
        if place is None or place >= len(owner):
            return self.changed(site, owner)
        del owner[place]
        return Unknown((), site.name)

    @models("remove")
    def remove(self, site: Site, owner: list[Value], value: Value, /) -> Value:
        """Models `remove(value)` of a std::list."""
        gone = removing.removed(site.run, owner, removing.equal_to(site, value))
        return self.changed(site, owner) if gone is NotImplemented else gone

    @models("remove_if")
    def remove_if(self, site: Site, owner: list[Value], goes: Value, /) -> Value:
        """Models `remove_if(goes)` of a std::list."""
        gone: Value = NotImplemented
        if isinstance(goes, Func):
            gone = removing.removed(site.run, owner, partial(_asked, site, goes))
        return self.changed(site, owner) if gone is NotImplemented else gone

    @models("size", "length")
    def size(self, site: Site, owner: list[Value]) -> Value:
        """Models `size()`: the number of elements."""
        return next((item for item in owner if isinstance(item, SoMany)), len(owner))

    @models("empty")
    def empty(self, site: Site, owner: list[Value]) -> bool:
        """Models `empty()`: whether there are no elements."""
        return not owner

    @models("data", "begin", "cbegin", "vec")
    def begin(self, site: Site, owner: list[Value]) -> list[Value]:
        """Models `begin()` and `data()`: the list itself stands for an iterator or address of its first element."""
        return owner

    @models("end", "cend")
    def end(self, site: Site, owner: list[Value]) -> str:
        """Models `end()`: the end iterator."""
        return END

    @models("clear")
    def clear(self, site: Site, owner: list[Value]) -> None:
        """Models `clear()`: removes all elements."""
        owner.clear()

    @models("pop_back")
    def pop_back(self, site: Site, owner: list[Value]) -> Value:
        """Models `pop_back()`: removes the last element."""
        return owner.pop() if owner else None

    @models("swap")
    def swap(self, site: Site, owner: list[Value], other: Value, /) -> Value:
        """Models `swap(other)`: exchanges the elements of two containers."""
        if not isinstance(other, list):
            return self.changed(site, owner)
        owner[:], other[:] = list(other), list(owner)
        return None

    @models("assign")
    def assign(self, site: Site, owner: list[Value], count: Value, value: Value = None, /) -> Value:
        """Models `assign(count, value)` and `assign(first, last)`: replaces all elements."""
        if len(site.args) == 2 and isinstance(count, list):
            owner[:] = list(count)
            return None
        if isinstance(count, Pointer) and isinstance(value, Pointer):
            owner[:] = copies.between(site.run, count, value, site.loc)
            return None
        return self._sized(site, owner, [], count)

    @models("resize")
    def resize(self, site: Site, owner: list[Value], count: Value, value: Value = None, /) -> Value:
        """Models `resize(count, value)`: drops elements from the end, or appends copies of `value`."""
        return self._sized(site, owner, owner, count)

    def _sized(self, site: Site, owner: list[Value], kept: list[Value], count: Value) -> Value:
        """So many, of which the first are those that are kept."""
        if not isinstance(count, int) or not 0 <= count <= bounds.MAX_ELEMENTS:
            return self.changed(site, owner)
        kept = kept[:count]
        fill = site.args[1] if len(site.args) > 1 else None if isinstance(owner, Tensors) else 0
        owner[:] = kept + [fill] * (count - len(kept))
        return None

    @models("insert")
    def insert(self, site: Site, owner: list[Value], at: Value, /, *given: Value) -> Value:
        """Models `insert(at, ...)`: only an insertion at the end is followed; after any other, all elements are
        unknown."""
        if not given or at != END:
            return self.changed(site, owner)
        several = given[0] if len(given) == 2 else None
        owner.extend(several if isinstance(several, list) else given[:1])
        return None

    def changed(self, site: Site, owner: list[Value], /, *given: Value) -> Value:
        """Models a change that is not followed: all elements are unknown from here on."""
        owner[:] = [Unknown((), site.name)] * max(len(owner), 1)
        return Unknown((), site.name)

    @models("front")
    def front(self, site: Site, owner: list[Value]) -> Value:
        """Models `front()`: the first element."""
        return self._element(site, owner, 0)

    @models("back")
    def back(self, site: Site, owner: list[Value]) -> Value:
        """Models `back()`: the last element."""
        return self._element(site, owner, -1)

    @models("at")
    def at(self, site: Site, owner: list[Value], place: Value, /) -> Value:
        """Models `at(index)`: one element."""
        return self._element(site, owner, place)

    def _element(self, site: Site, owner: list[Value], place: Value) -> Value:
        known = isinstance(place, int) and -1 <= place < len(owner) and owner
        return owner[place] if known and isinstance(place, int) else Unknown((), site.name)

    def other(self, site: Site, owner: list[Value]) -> Value:
        """Answers a call of a method without a model (`Methods.other`): an unknown value."""
        return unread.method(site)


def _asked(site: Site, func: Func, item: Value) -> Value:
    """What a function of the text says of an element."""
    return site.run.cpp.call(func, [item], site.loc)


class _Maps(Methods[dict[Value, Value]]):
    """std::map, std::set and their unordered kin."""

    @models("size")
    def size(self, site: Site, owner: dict[Value, Value]) -> int:
        """Models `size()`: the number of entries."""
        return len(owner)

    @models("empty")
    def empty(self, site: Site, owner: dict[Value, Value]) -> bool:
        """Models `empty()`: whether there are no entries."""
        return not owner

    @models("begin", "cbegin")
    def begin(self, site: Site, owner: dict[Value, Value]) -> Value:
        """Models `begin()`: an iterator at the first entry."""
        first = self._after(owner, None)
        return iterator(owner, next(iter(owner))) if owner and isinstance(first, Unknown) else first

    @models("end", "cend")
    def end(self, site: Site, owner: dict[Value, Value]) -> str:
        """Models `end()`: the end iterator."""
        return end_of(owner)

    @models("clear")
    def clear(self, site: Site, owner: dict[Value, Value]) -> None:
        """Models `clear()`: removes all entries."""
        owner.clear()

    @models("insert", "emplace")
    def insert(self, site: Site, owner: dict[Value, Value], first: Value, /, *rest: Value) -> Value:
        """Models `insert(entry)` and `emplace(key, value)`: adds an entry unless the key has one."""
        if len(rest) == 2 and isinstance(first, Sym):  # `std::piecewise_construct`, and what key and value are made of
            of, made_of = rest
            first = of[0] if isinstance(of, (list, tuple)) and len(of) == 1 else of
            rest = tuple(made_of) if isinstance(made_of, (list, tuple)) else (made_of,)
        if rest and isinstance(owner, Entries):
            return self.try_emplace(site, owner, first, *rest)
        key, value = self._entry(owner, first, rest)
        return self._put(site, owner, key, lambda: value, over=False)

    @models("insert_or_assign")
    def insert_or_assign(self, site: Site, owner: dict[Value, Value], first: Value, /, *rest: Value) -> Value:
        """Models `insert_or_assign(key, value)`: adds an entry, or replaces the value of the one that is there."""
        key, value = self._entry(owner, first, rest)
        return self._put(site, owner, key, lambda: value, over=True)

    @models("try_emplace")
    def try_emplace(self, site: Site, owner: dict[Value, Value], key: Value, /, *rest: Value) -> Value:
        """Models `try_emplace(key, args...)`: adds an entry, its value constructed from `args`, unless the key has
        one."""
        fresh = owner.fresh if isinstance(owner, Entries) else None
        value = rest[-1] if rest else key
        return self._put(site, owner, key, (lambda: value) if fresh is None else partial(fresh, rest), over=False)

    def _entry(self, owner: dict[Value, Value], first: Value, rest: tuple[Value, ...]) -> tuple[Value, Value]:
        """The key and the value that a call gives: two arguments, or one that is a pair."""
        pair = not rest and not isinstance(owner, Keys) and isinstance(first, (list, tuple)) and len(first) == 2
        if pair and isinstance(first, (list, tuple)):
            return first[0], first[1]
        return first, rest[-1] if rest else first

    def _put(
        self, site: Site, owner: dict[Value, Value], key: Value, made: Callable[[], Value], *, over: bool
    ) -> tuple[Value, bool]:
        """Where the entry of a key is, and whether it was added."""
        key = hashed(key)
        held = keys.held_key(site.run, owner, key)
        added = held is keys.MISSING
        at = key if added else held
        if added or over:
            owner[at] = made()
        return iterator(owner, at), added

    @models("find")
    def find(self, site: Site, owner: dict[Value, Value], key: Value, /, *rest: Value) -> Value:
        """Models `find(key)`: an iterator at the entry of the key, or the end."""
        held = self._held(site, owner, key)
        return end_of(owner) if held is keys.MISSING else iterator(owner, held)

    @models("lower_bound")
    def lower_bound(self, site: Site, owner: dict[Value, Value], key: Value, /) -> Value:
        """Models `lower_bound(key)`: an iterator at the first entry whose key is not less."""
        return self._after(owner, key)

    @models("upper_bound")
    def upper_bound(self, site: Site, owner: dict[Value, Value], key: Value, /) -> Value:
        """Models `upper_bound(key)`: an iterator at the first entry whose key is greater."""
        return self._after(owner, key, behind=True)

    def _after(self, owner: dict[Value, Value], key: Value, *, behind: bool = False) -> Value:
        """An iterator at the least key of all, or the least at or behind one, of what lies in the order of its keys."""
        order: Sequence[Value] | None = in_order(owner)
        if order is not None and key is not None:
            order = _from(order, key, behind)
        if order is None:
            return Unknown((), "a place in a map")
        return iterator(owner, order[0]) if order else end_of(owner)

    @models("count")
    def count(self, site: Site, owner: dict[Value, Value], key: Value, /, *rest: Value) -> int:
        """Models `count(key)`: the number of entries of a key."""
        return int(self._held(site, owner, key) is not keys.MISSING)

    @models("contains")
    def contains(self, site: Site, owner: dict[Value, Value], key: Value, /, *rest: Value) -> bool:
        """Models `contains(key)`: whether a key has an entry."""
        return self._held(site, owner, key) is not keys.MISSING

    @models("at")
    def at(self, site: Site, owner: dict[Value, Value], key: Value, /, *rest: Value) -> Value:
        """Models `at(key)`: the value of a key."""
        held = self._held(site, owner, key)
        return Unknown((), "a missing entry") if held is keys.MISSING else owner[held]

    @models("erase")
    def erase(self, site: Site, owner: dict[Value, Value], key: Value, /, *rest: Value) -> int:
        """Models `erase(key)`: removes an entry, and returns how many were removed."""
        held = self._held(site, owner, key)
        if held is keys.MISSING:
            return 0
        owner.pop(held)
        return 1

    def _held(self, site: Site, owner: dict[Value, Value], key: Value) -> Value:
        """The key that is there; MISSING where none is."""
        return keys.held_key(site.run, owner, hashed(key))

    @models("swap")
    def swap(self, site: Site, owner: dict[Value, Value], other: Value, /) -> Value:
        """Models `swap(other)`: exchanges the entries of two maps."""
        if not isinstance(other, dict):
            return NotImplemented
        mine, theirs = dict(owner), dict(other)
        for held, entries in ((owner, theirs), (other, mine)):
            held.clear()
            held.update(entries)
        return None

    def other(self, site: Site, owner: dict[Value, Value]) -> Value:
        """Answers a call of a method without a model (`Methods.other`): an unknown value."""
        return unread.method(site)


def _from(order: Sequence[Value], key: Value, behind: bool) -> Sequence[Value] | None:
    """Those of keys in their order that are no less than one, or behind it; None where that is not known."""
    if isinstance(key, int):
        numbers = [one for one in order if isinstance(one, int)]
        return [one for one in numbers if one > key - (not behind)] if len(numbers) == len(order) else None
    texts = [one for one in order if isinstance(one, str)]
    if not isinstance(key, str) or len(texts) < len(order):
        return None
    return [one for one in texts if one > key or one == key and not behind]


LISTS = _Lists()
MAPS = _Maps()
