"""Elements that leave containers of C++: where `std::remove_if` says that they begin, and what `erase` takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kbh_lint.base.values import Value
from kbh_lint.cpp import integers
from kbh_lint.host.cpp.std.containers import END
from kbh_lint.host.datamodel import comparisons
from kbh_lint.host.values import bounds
from kbh_lint.host.values.cpp_objects import Slot
from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.objects import LibObject

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


class Rest(list[Value]):
    """An iterator at the element number `at` of `owner`: what lies from there on."""

    def __init__(self, owner: list[Value], at: int) -> None:
        super().__init__(owner[at:])
        self.owner, self.at = owner, at


def partitioned(run: Run, items: list[Value], goes: Callable[[Value], Value]) -> Value:
    """Puts the elements that go behind those that stay, and returns where they begin; NotImplemented where it is not
    known of all elements whether they go."""
    stay: list[Value] = []
    go: list[Value] = []
    for item in bounds.visited(run, items):
        answer = goes(item)
        if not isinstance(answer, bool) and not integers.is_plain(answer):
            return NotImplemented
        (go if answer else stay).append(item)
    items[:] = stay + go
    return Rest(items, len(stay)) if go else END


def removed(run: Run, items: list[Value], goes: Callable[[Value], Value]) -> Value:
    """Removes the elements that go, and returns how many did; NotImplemented where it is not known of all."""
    since = partitioned(run, items, goes)
    if since is NotImplemented:
        return since
    gone = len(since) if isinstance(since, Rest) else 0
    del items[len(items) - gone :]
    return gone


def equal_to(site: Site, value: Value) -> Callable[[Value], Value]:
    """Asks of elements whether they are `value`."""

    def goes(item: Value) -> Value:
        return comparisons.compare(site.run, "==", item, value, site.loc)

    return goes


def erased(owner: list[Value], first: Value, last: Value) -> bool:
    """Removes the elements between two iterators; returns whether these are known."""
    since, until = place_in(owner, first), place_in(owner, last)
    if not owner:
        return True
    if since is None or until is None or not since <= until <= len(owner):
        return False
    del owner[since:until]
    return True


def place_in(owner: list[Value], at: Value) -> int | None:
    """Which element of a list an iterator is at: its place, the list itself for the first, or an object that it
    holds."""
    if isinstance(at, Slot):
        return at.name if at.env is owner and isinstance(at.name, int) else None
    if isinstance(at, Rest):
        return at.at if at.owner is owner else None
    if at is owner or at == END:
        return 0 if at is owner else len(owner)
    return next((i for i, one in enumerate(owner) if one is at), None) if isinstance(at, LibObject) else None
