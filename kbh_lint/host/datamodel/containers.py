"""Methods of lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import exceptions, generators, iteration, ordering
from kbh_lint.host.torch import recording
from kbh_lint.host.values import bounds, equality
from kbh_lint.host.values.containers import Once, Ring
from kbh_lint.host.values.frames import OutOfFuel, Raised
from kbh_lint.host.values.modelled import Methods, Site, models
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_RANGE = bounds.MAX_ITEMS


class _Lists(Methods[list[Value]]):
    """Methods of lists, deques and iterators; an iterator is a list from which items are taken."""

    def call(self, site: Site, owner: list[Value]) -> Value:
        """Calls a method of a list; its cost in fuel grows with the list, but for `append` and `pop`."""
        site.run.burn()
        if site.name not in ("append", "pop") and not isinstance(owner, Once):
            bounds.visited(site.run, owner)
        return super().call(site, owner)

    @models("append")
    def append(self, site: Site, owner: list[Value], object: Value, /) -> None:
        """Models `list.append(item)`."""
        owner.append(object)
        _kept(owner, 0)

    @models("appendleft")
    def appendleft(self, site: Site, owner: list[Value], x: Value, /) -> None:
        """Models `deque.appendleft(item)`."""
        self._before(site, owner, [x])

    @models("extendleft")
    def extendleft(self, site: Site, owner: list[Value], iterable: Value, /) -> None:
        """Models `deque.extendleft(items)`, which reverses the items."""
        self._before(site, owner, iteration.iterate(site.run, iterable, site.loc))

    def _before(self, site: Site, owner: list[Value], more: Sequence[Value]) -> None:
        bounds.items(site.run, len(owner) + len(more))
        owner[:0] = list(more)[::-1]
        _kept(owner, -1)

    @models("popleft")
    def popleft(self, site: Site, owner: list[Value]) -> Value:
        """Models `deque.popleft()`: removes and returns the first item."""
        if not owner:
            site.run.may_fail("IndexError", site.loc)
        return owner.pop(0) if owner else Unknown()

    @models("rotate")
    def rotate(self, site: Site, owner: list[Value], n: Value = 1, /) -> None:
        """Models `deque.rotate(n)`: moves n items from the end to the start."""
        count = n if isinstance(n, int) else 1
        at = -count % len(owner) if owner else 0
        owner[:] = owner[at:] + owner[:at]

    @models("extend")
    def extend(self, site: Site, owner: list[Value], iterable: Value, /) -> None:
        """Models `list.extend(items)`."""
        more = iteration.iterate(site.run, iterable, site.loc)
        bounds.items(site.run, len(owner) + len(more))
        owner.extend(more)
        _kept(owner, 0)

    @models("insert")
    def insert(self, site: Site, owner: list[Value], index: Value, object: Value, /) -> None:
        """Models `list.insert(index, item)`."""
        owner.insert(index if isinstance(index, int) else 0, object)

    @models("pop")
    def pop(self, site: Site, owner: list[Value], index: Value = -1, /) -> Value:
        """Models `list.pop(index)`: removes and returns an item."""
        if not owner:
            site.run.may_fail("IndexError", site.loc)
        return owner.pop(index if isinstance(index, int) else -1) if owner else Unknown()

    @models("clear")
    def clear(self, site: Site, owner: list[Value]) -> None:
        """Models `list.clear()`."""
        owner.clear()

    @models("copy")
    def copy(self, site: Site, owner: list[Value]) -> Value:
        """Models `list.copy()`."""
        return list(owner)

    @models("reverse")
    def reverse(self, site: Site, owner: list[Value]) -> None:
        """Models `list.reverse()`."""
        owner.reverse()

    @models("remove")
    def remove(self, site: Site, owner: list[Value], value: Value, /) -> None:
        """Models `list.remove(value)`: removes the first item equal to the value."""
        if bounds.is_small(value) and value in owner:
            owner.remove(value)
        else:
            site.run.may_fail("ValueError", site.loc)

    @models("sort")
    def sort(self, site: Site, owner: list[Value], *, key: Value = None, reverse: Value = False) -> None:
        """Models `list.sort()`, as far as the order of the items is known."""
        sort_items(site.run, owner, key, reverse, site.loc)

    @models("index")
    def index(self, site: Site, owner: list[Value], value: Value, /, *ends: Value) -> Value:
        """Models `list.index(value)`: the index of the first item equal to the value."""
        if bounds.is_small(value) and value in owner:
            return owner.index(value)
        site.run.may_fail("ValueError", site.loc)
        return Unknown()

    @models("count")
    def count(self, site: Site, owner: list[Value], value: Value, /) -> int:
        """Models `list.count(value)`: how many items are equal to the value."""
        return sum(1 for x in owner if equality.same(site.run, x, value) is True)

    @models("__iter__")
    def iterator(self, site: Site, owner: list[Value]) -> Value:
        """Models `iterator.__iter__()`: returns the iterator itself."""
        return owner if isinstance(owner, Once) else NotImplemented

    @models("close")
    def close(self, site: Site, owner: list[Value]) -> Value:
        """Models `generator.close()`."""
        if not isinstance(owner, Once):
            return NotImplemented
        generators.close(owner)
        return None

    @models("throw")
    def throw(self, site: Site, owner: list[Value], type: Value, /, *more: Value) -> Value:
        """Models `generator.throw(error)`: returns the next value that the generator yields."""
        if isinstance(owner, Once):
            generators.throw(owner, exceptions.raised(site.run, type, site.loc))
        return self.following(site, owner)

    @models("send")
    def send(self, site: Site, owner: list[Value], value: Value, /) -> Value:
        """Models `generator.send(value)`: returns the next value that the generator yields."""
        if isinstance(owner, Once):
            owner.sent = value
        return self.following(site, owner)

    @models("__next__")
    def following(self, site: Site, owner: list[Value]) -> Value:
        """Models `iterator.__next__()`: returns the next item."""
        if not isinstance(owner, Once):
            return NotImplemented
        if not len(owner) and not owner.more():
            iteration.ended(site.run, owner, site.loc)
            return Unknown()
        return owner.pop(0)

    def other(self, site: Site, owner: list[Value]) -> Value:
        """Answers a call of a method without a model (`Methods.other`): an unknown value."""
        return Unknown((), site.path)


LISTS = _Lists()


def _kept(owner: list[Any], end: int) -> None:
    """Drops what a full deque loses at one end."""
    longest = owner.longest if isinstance(owner, Ring) else None
    while longest is not None and len(owner) > longest:
        owner.pop(end)


def sort_items(interp: Run, items: list[Any], key: Value, reverse: Value, loc: ir.Loc | None = None) -> None:
    """Sorts `items` in place, as `list.sort` does. Where their order is not known, they stay as they are, but for what
    was read from tensors, which may be any of it."""
    if not all(map(bounds.is_small, items)):
        return
    asked = [*items]
    try:
        if key is not None:
            asked = [interp.call(key, [item], {}, None) for item in items]
        order = sorted(
            range(len(items)), key=lambda at: ordering.key_of(interp, asked[at], None), reverse=bool(reverse)
        )
        items[:] = [items[at] for at in order]
    except (Raised, OutOfFuel, MemoryError):
        raise
    except Exception:  # keys without an order: unknowns, mixed types; the run goes on with the order it has
        items[:] = any_order(interp, "sorted", items, asked, loc)


MAX_KNOWN = 256  # items that are known, put in an order that is not: of more, each may be any


def any_order(
    interp: Run, name: str, items: Sequence[Value], asked: Sequence[Value], loc: ir.Loc | None
) -> list[Value]:
    """Returns items as they are after something put them in the order of the values `asked`, which were read from
    tensors: numbers may be any of them."""
    made = recording.ordered(interp, name, list(asked), loc)
    return list(items) if made is None else [_any_of(item, made, len(items) > MAX_KNOWN) for item in items]


def _any_of(item: Value, made: Unknown, many: bool) -> Value:
    """An item of which nobody knows where it stands."""
    if isinstance(item, tuple):
        return tuple(_any_of(part, made, many) for part in item)
    if isinstance(item, list):
        return [_any_of(part, made, many) for part in item]
    return made if isinstance(item, Unknown) and item.contents or many and type(item) in (int, float) else item
