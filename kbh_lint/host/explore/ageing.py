"""Counters of calls: numbers that move and containers that grow or shrink with every call, and where they stand after
a long time."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Value
from kbh_lint.cpp import integers
from kbh_lint.host.values.escapes import EscapedState, Length
from kbh_lint.host.values.tensors import ADDRESS_BITS

Held = dict[Any, Any] | set[Any] | list[Any] | tuple[Any, ...] | str | bytes  # what is made longer

MANY_CALLS = 1_000_003
MANY_ITEMS = 10_007  # below what is compared whole (`bounds.MAX_NODES`)
MAX_STEP = 16  # a counter of calls goes up or down by little
_DOUBLINGS = 40
_KEYS = -(1 << 60)  # of the items that a container is given; no submission has them


@dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """A place in memory that counts calls: its value `now`, after the second call, and whether it `rises`. `late` is
    its number after many more calls; a container is made longer or emptied in place of that."""

    slot: EscapedState
    now: Any
    rises: bool
    late: Any = None

    def reset(self) -> None:
        """Sets a number back to its value after the second call; containers keep what later calls stored."""
        if not isinstance(self.slot.value, Length):
            self.put(self.now)

    def age(self) -> None:
        """Sets the counter to a value that it has only after many more calls."""
        if not isinstance(self.slot.value, Length):
            self.put(self.late)
        elif self.slot.name is None:
            self.put(_longer(self.slot.table) if self.rises else ())
        elif _is_there(self.slot):
            held = self.slot.table[self.slot.name]
            self.put(_longer(held) if self.rises else held[:0])

    def put(self, value: Value) -> None:
        """Stores a number or a text in its place, or replaces the items of a container."""
        table = self.slot.table
        if self.slot.name is not None:
            if isinstance(table, dict) or _is_there(self.slot):
                table[self.slot.name] = value
        elif isinstance(table, list):
            items: Any = value
            table[:] = items
        else:
            table.clear()
            table.update(value)


def counters(before: list[EscapedState], first: list[EscapedState], second: list[EscapedState]) -> list[Counter]:
    """Returns the numbers and container lengths that changed by a small step between the first and the second call."""
    if len(first) == len(second) and all(map(_stands_still, first, second)):
        return []  # as of most programs, which keep nothing between calls
    start, earlier = _numbers(before), _numbers(first)
    found = []
    for place, slot in _placed(second):
        known = earlier.get(place)
        if known is None or not 0 < abs(slot.value - known) <= MAX_STEP:
            continue
        step = slot.value - known
        if isinstance(slot.value, Length):
            held = slot.table if slot.name is None else slot.table[slot.name]
            found.append(Counter(slot, copy(held), step > 0))
        else:
            grows = step > known - start.get(place, known - step)
            found.append(Counter(slot, slot.value, step > 0, _after(slot.value, step, grows)))
    return found


def _stands_still(one: EscapedState, other: EscapedState) -> bool:
    """Whether two slots are one place, and hold no number or length that differs."""
    if (one.path, type(one.value)) != (other.path, type(other.value)) or one.table is not other.table:
        return False
    named = one.name is other.name or isinstance(one.name, (str, int)) and one.name == other.name
    return named and (not isinstance(one.value, (int, float)) or one.value == other.value)


def _numbers(slots: list[EscapedState]) -> dict[Any, Any]:
    return {place: slot.value for place, slot in _placed(slots)}


def _placed(slots: list[EscapedState]) -> Iterator[tuple[Any, EscapedState]]:
    """What may count, with what tells it from the others: one container from the others that are found on the same
    way, one number by its turn among those, as the entries of a table have one way."""
    turns: dict[Any, int] = {}
    for slot in slots:
        if not _is_counter(slot):
            continue
        place: Any = (slot.path, id(slot.table), slot.name)
        if not isinstance(slot.value, Length):
            place = (slot.path, type(slot.value))
            turns[place] = turn = turns.get(place, 0) + 1
            place = (*place, turn)
        yield place, slot


def _is_there(slot: EscapedState) -> bool:
    return slot.name < len(slot.table) if isinstance(slot.table, list) else slot.name in slot.table


def _is_counter(slot: EscapedState) -> bool:
    counts = integers.is_plain(slot.value) or type(slot.value) in (float, Length)
    return counts and isinstance(slot.table, (dict, list, set))


def _after(value: float, step: float, grows: bool) -> Value:
    """A number after many steps. One whose steps grow is taken to be doubled; it stays below what an address is."""
    if step < 0:
        return type(value)(0)
    if grows:
        return type(value)(min(value * 2**_DOUBLINGS, (1 << ADDRESS_BITS) - 1))
    return value + MANY_CALLS * step


def _longer(held: Held) -> Value:
    """A container or a text with its last item many times more, or with other keys."""
    more = range(_KEYS, _KEYS + MANY_ITEMS)
    if isinstance(held, dict):
        return {**held, **dict.fromkeys(more)}
    if isinstance(held, set):
        return held.union(more)
    last: Any = held[-1:]
    return held + last * MANY_ITEMS
