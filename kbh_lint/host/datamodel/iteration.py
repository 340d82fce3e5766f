"""Iterating over values of the interpreted program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.datamodel import exceptions
from kbh_lint.host.torch import tensor_views
from kbh_lint.host.values import bounds, taint, unknowns
from kbh_lint.host.values.containers import Once, Some
from kbh_lint.host.values.frames import Raised
from kbh_lint.host.values.objects import Instance, find_method
from kbh_lint.host.values.tensors import Tensor, Unknown
from kbh_lint.source.embedded import cut, doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_DRAWN = 256  # items of an iterator of the submission
MAX_PLACED = 10_000  # characters of a text that are gone through with their places


def materialise(interp: Run, value: Value, loc: ir.Loc | None) -> Sequence[Any]:
    """Returns all items of an iterable at once, at a cost in fuel by their number."""
    found = iterate(interp, value, loc)
    bounds.items(interp, len(found))
    return found


def iterate(interp: Run, value: Value, loc: ir.Loc | None, want: int | None = None) -> Sequence[Any]:
    """Returns the items that a `for`, an unpacking or `*` gets. An unknown iterable gives one unknown item (or `want`
    of them)."""
    if isinstance(value, (list, tuple, range)):
        return value.taken() if isinstance(value, Once) else value
    if isinstance(value, (bytes, bytearray)):
        bounds.items(interp, len(value))
        return list(value)
    if isinstance(value, str):
        bounds.items(interp, len(value))
        if len(value) > MAX_PLACED:  # such a text is data: where each character stands does not matter
            return [unknowns.merged(interp, value)] if doubts(value) else list(str(value))
        return [cut(value, i, i + 1) for i in range(len(value))]
    if isinstance(value, dict):
        return list(bounds.visited(interp, value))
    if isinstance(value, (set, frozenset)):
        return sorted(bounds.visited(interp, value), key=repr)
    if isinstance(value, Tensor):
        return tensor_views.rows(interp, value, loc, want)
    if isinstance(value, Unknown):
        known = value if taint.symbol_of(value) else Unknown((), "an item of an unknown")
        return Some([known.like(value.contents, value.made) for _ in range(want or 1)])
    if exceptions.plain(value):
        interp.may_fail("TypeError", loc)
    items = interp.items_of(value, loc)
    if items is not None:
        return items if isinstance(items, (range, Some)) else list(items)
    return Some([unknowns.merged(interp, value) for _ in range(want or 1)])


def by_index(interp: Run, value: Instance, loc: ir.Loc | None) -> list[Value]:
    """Returns the items of an object that has only `__getitem__`: from index 0 until it raises IndexError."""
    items: list[Any] = []
    found = find_method(value, "__getitem__")
    try:
        while len(items) < MAX_DRAWN:
            items.append(interp.call(found, [len(items)], {}, loc))
    except Raised as error:
        if not exceptions.catches(interp, Sym("builtins.IndexError"), error.value):
            raise
        return items
    interp.lost(f"an object that gives more than {MAX_DRAWN} items", loc)
    return items


def ended(interp: Run, once: Value, loc: ir.Loc | None) -> None:
    """Raises StopIteration where an iterator is known to be exhausted, and otherwise records that it may be raised."""
    if interp.trying and isinstance(once, Once) and once.gave is not None:
        exceptions.raise_("StopIteration", [once.gave], loc)
    interp.may_fail("StopIteration", loc)


def in_turn(once: Once) -> Iterator[Value]:
    """Yields the items of an iterator one by one; other code may take items from the same iterator in between."""
    while len(once) or once.more():
        yield once.pop(0)


def drawn(interp: Run, value: Instance, loc: ir.Loc | None) -> list[Value] | None:
    """Returns the items that an object's `__next__` gives, up to a bound; None for an object without that method."""
    found = find_method(value, "__next__")
    later = find_method(value, "__anext__") if found is None else None
    end = Sym("builtins.StopIteration" if later is None else "builtins.StopAsyncIteration")
    found = found or later
    items: list[Any] = []
    while found is not None and len(items) < MAX_DRAWN:
        try:
            item = interp.call(found, [], {}, loc)
            items.append(item if later is None else interp.awaited(item, loc))
        except Raised as error:
            if exceptions.catches(interp, end, error.value):
                return items
            raise
    if found is not None:
        interp.lost(f"an iterator that gives more than {MAX_DRAWN} items", loc)
    return items if found is not None else None
