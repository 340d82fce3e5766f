"""What an index takes of an array, in languages that index as numpy does: an element, or a row that has elements."""

from __future__ import annotations

from kbh_lint.base.records import dataclass
from kbh_lint.kernels.core.value import V


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """Marks a value that was read from an array by an index: as the number of dimensions is unknown, it may be a
    row."""

    array: V


class Rows:
    """The marks of a run: one for all reads of the same array, so that values can be joined and equal calls
    recognised."""

    def __init__(self) -> None:
        self.made: dict[object, Row] = {}

    def read(self, value: V, array: V) -> V:
        """`value`, which was read from `array` by an index, marked as possibly a row of the array."""
        if value.x is not None or value.cells:
            return value
        key = array.cells, array.dtype, array.content, array.origins
        return value.with_(x=self.made.setdefault(key, Row(array)))


def array_of(value: V) -> V:
    """The array that `value` is, or may be a row of."""
    return value.x.array if isinstance(value.x, Row) else value
