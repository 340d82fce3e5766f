"""Methods of std::priority_queue."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.cpp.std import unread
from kbh_lint.host.cpp.std.containers import Heap
from kbh_lint.host.torch import recording
from kbh_lint.host.values.modelled import Methods, Site, models
from kbh_lint.host.values.tensors import Unknown


class _Heaps(Methods[Heap]):
    """std::priority_queue."""

    @models("push")
    def push(self, site: Site, owner: Heap, value: Value, /) -> None:
        """Models `push(value)`."""
        owner.append(value)

    @models("emplace")
    def emplace(self, site: Site, owner: Heap, /, *given: Value) -> None:
        """Models `emplace(args...)`: of several arguments, a pair of them."""
        owner.append(list(given) if len(given) > 1 else next(iter(given), None))

    @models("size")
    def size(self, site: Site, owner: Heap) -> int:
        """Models `size()`."""
        return len(owner)

    @models("empty")
    def empty(self, site: Site, owner: Heap) -> bool:
        """Models `empty()`."""
        return not owner

    @models("top")
    def top(self, site: Site, owner: Heap) -> Value:
        """Models `top()`: what was read from tensors was put in order for it; of numbers, the largest."""
        made = recording.ordered(site.run, "std::priority_queue", owner, site.loc)
        numbers = [item for item in owner if type(item) is int]
        if made is None and numbers and len(numbers) == len(owner) and not owner.by:
            return max(numbers)
        return Unknown((), site.name) if made is None else made

    @models("pop")
    def pop(self, site: Site, owner: Heap) -> None:
        """Models `pop()`: removes the largest of numbers, of others any."""
        if owner:
            plain = all(type(item) is int for item in owner) and not owner.by
            del owner[owner.index(max(owner)) if plain else 0]

    def other(self, site: Site, owner: Heap) -> Value:
        """Answers a call of a method without a model (`Methods.other`): an unknown value."""
        return unread.method(site)


HEAPS = _Heaps()
