"""Containers of the interpreted program that are more than the list or dict which holds their items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbh_lint.base.values import Value


class Ring(list[Any]):
    """collections.deque, which may hold no more than its `longest` items."""

    longest: int | None = None


class Tensors(list[Any]):
    """A std::vector of tensors: elements that `resize` adds are undefined tensors."""


class Some(list[Any]):
    """What was made of the items of something that nobody knows: nor is it known how many these are."""


class Once(list[Any]):
    """An iterator: the items that it holds, and then those that `source`, if there is one, yields on demand."""

    source: Iterator[Any] | None = None
    gave: Any = None  # what a generator returned
    sent: Any = None  # the value of the `yield` at which a generator goes on

    def __bool__(self) -> bool:
        return True  # an iterator, however little it has left

    def more(self) -> bool:
        """Takes one more item from `source`; returns whether there was one."""
        if self.source is not None:
            for item in self.source:
                self.append(item)
                return True
            self.source = None
        return False

    def filled(self) -> Once:
        """Takes all remaining items from `source`; returns itself."""
        while self.more():
            pass
        return self

    def taken(self) -> list[Value]:
        """Returns all remaining items, and leaves the iterator exhausted."""
        left = list(self.filled())
        self.clear()
        return left


class Keys(list[Any]):
    """The keys of a dict, as `dict.keys()` returns them, which work as a set."""


class Tally(dict[Any, Any]):
    """collections.Counter: a key that is not in it has the count 0."""


class Defaults(dict[Any, Any]):
    """collections.defaultdict; `factory` makes the value of a missing key."""

    factory: Any = None
