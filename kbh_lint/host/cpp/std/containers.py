"""Containers of C++'s standard library: what each is here, and how elements and entries come to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base.values import Value
from kbh_lint.host.values import keys
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

END = "end"  # what `end()` of a container is


class End(str):
    """The end iterator of a map, `owner`."""

    owner: dict[Value, Value]


def end_of(owner: dict[Value, Value]) -> End:
    """Returns `end()` of a map, which compares equal to `END`."""
    made = End(END)
    made.owner = owner
    return made


class Keys(dict[Any, Any]):
    """std::set and std::unordered_set, as a dict of its keys; `rising` says whether the set is ordered."""

    rising = False


class SoMany(Unknown):
    """Stands in a list for the elements that a loop of unknown length added."""


class Heap(list[Any]):
    """A std::priority_queue; `by` says whether it is told how to compare."""

    by = False


class Back(list[Any]):
    """The iterator that std::back_inserter returns: what is written through it is appended to `owner`."""

    def __init__(self, owner: list[Any]) -> None:
        super().__init__()
        self.owner = owner


class Objects(list[Any]):
    """A std::vector of objects of a class or of pairs; `made` constructs an element from the arguments of
    `emplace_back`."""

    made: Callable[[list[Any]], Any]


def objects(items: Sequence[Value], made: Callable[[list[Any]], Any]) -> Objects:
    """Makes a vector whose elements are constructed by `made`."""
    held = Objects(items)
    held.made = made
    return held


def put_through(to: list[Any], items: list[Any]) -> None:
    """Writes `items` through an output iterator: over the first elements of `to`, or appended by a back inserter."""
    if isinstance(to, Back):
        to.owner.extend(items)
    else:
        to[: len(items)] = items


class Entries(dict[Any, Any]):
    """std::map and std::unordered_map. `fresh` constructs the value of a new key, from no arguments for `[]` and from
    those of `emplace`; `rising` says whether the map is ordered."""

    fresh: Callable[[Sequence[Value]], Any] | None = None
    rising = False


class _Pair(dict[str, Any]):
    """The pair that a map iterator points at; assigning to `second` changes the map's entry."""

    def __init__(self, owner: dict[Any, Any], key: Value) -> None:
        super().__init__(first=key, second=owner[key])
        self.owner = owner

    def __getitem__(self, name: str) -> Value:
        return self.owner.get(self["first"]) if name == "second" else super().__getitem__(name)

    def __setitem__(self, name: str, value: Value) -> None:
        super().__setitem__(name, value)
        if name == "second":
            self.owner[self["first"]] = value


def iterator(owner: dict[Any, Any], key: Value) -> LibObject:
    """Returns an iterator of a map, at the entry of `key`."""
    return LibObject("cpp.iterator", _Pair(owner, key))


def stepped(op: str, at: Value, by: Value) -> Value:
    """Returns a map iterator moved `by` entries; NotImplemented where `at` is no map iterator, Unknown where the map's
    order is not known."""
    held = at.attrs if isinstance(at, LibObject) else None
    if op not in "+-" or not isinstance(by, int) or not isinstance(at, End) and not isinstance(held, _Pair):
        return NotImplemented
    by = by if op == "+" else -by
    owner = at.owner if isinstance(at, End) else held.owner if isinstance(held, _Pair) else {}
    order = in_order(owner)
    if order is None or held is not None and held["first"] not in order:  # or its entry was erased
        return Unknown((), "a place in a map")
    place = by + (len(order) if isinstance(at, End) or held is None else order.index(held["first"]))
    if not 0 <= place <= len(order):
        return Unknown((), "a place outside a map")
    return end_of(owner) if place == len(order) else iterator(owner, order[place])


def in_order(owner: dict[Value, Value]) -> list[int] | list[str] | None:
    """Returns the keys of an ordered map in ascending order, if all are numbers or all are texts; None otherwise."""
    numbers, texts = [key for key in owner if isinstance(key, int)], [key for key in owner if isinstance(key, str)]
    if not (isinstance(owner, (Entries, Keys)) and owner.rising) or len(owner) not in (len(numbers), len(texts)):
        return None
    return sorted(texts) if texts else sorted(numbers)


def entry(run: Cpp, owner: dict[Any, Any], key: Value) -> Value:
    """Returns the key that `owner[key]` finds, inserting an entry into a map where there is none; MISSING where the
    result is not known."""
    key = hashed(key)
    found = keys.held_key(run.interp, owner, key)
    if found is keys.MISSING and isinstance(owner, Entries) and owner.fresh is not None:
        owner[key] = owner.fresh(())
        return key
    return found


def set_of(items: list[Value]) -> Keys:
    """Makes a std::set or std::unordered_set of its constructor's arguments."""
    return Keys((hashed(key), True) for key in _rows(items))


def map_of(items: list[Any]) -> Entries:
    """Makes a std::map or std::unordered_map of its constructor's arguments."""
    rows = next(
        (rows for rows in (_rows(items), items) if _are_pairs(rows)), []
    )  # one pair in braces is no list of pairs
    return Entries((hashed(row[0]), row[1]) for row in rows)


def _rows(items: list[Any]) -> list[Any]:
    """What stands in braces, also in those of one list."""
    return items[0] if len(items) == 1 and isinstance(items[0], list) else items


def _are_pairs(rows: list[Value]) -> bool:
    return all(isinstance(row, (list, tuple)) and len(row) == 2 for row in rows)


def hashed(key: Value) -> Any:
    """Converts a C++ key to a Python one: pairs and vectors become tuples."""
    return tuple(map(hashed, key)) if isinstance(key, (list, tuple)) else key
