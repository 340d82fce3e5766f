"""The order of the submission's own objects, which sort, sorted, min and max ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import comparisons
from kbh_lint.host.values.objects import Instance, find_method, ordered_as

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


class Ordered:
    """A sort key that asks the program which of two values comes first: by the function `before`, or by their classes'
    methods."""

    __slots__ = ("interp", "value", "before", "loc")

    def __init__(self, interp: Run, value: Value, before: Value, loc: ir.Loc | None) -> None:
        self.interp, self.value, self.before, self.loc = interp, value, before, loc

    def __lt__(self, other: Value) -> bool:
        return self._holds("<", other)

    def __gt__(self, other: Value) -> bool:
        return self._holds(">", other)

    def _holds(self, op: str, other: Value) -> bool:
        assert isinstance(other, Ordered)
        sides = self.value, other.value
        if self.before is not None:
            sides = self.interp.call(self.before, list(sides), {}, self.loc), 0
        return bool(self.interp.truth(comparisons.compare(self.interp, op, *sides, self.loc), self.loc))


def key_of(interp: Run, value: Value, loc: ir.Loc | None) -> Any:
    """Returns a sort key for a value: an object that has `__lt__` or `__gt__` is compared by its own methods."""
    if isinstance(value, Instance) and (find_method(value, "__lt__") or find_method(value, "__gt__")):
        return Ordered(interp, value, None, loc)
    return ordered_as(value)
