"""Tables by class, as `functools.singledispatch` has them, without a call for each value that is looked up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

_R = TypeVar("_R")


class ByClass(dict[type, _R]):
    """Rows by class: a class without a row of its own has that of the nearest class which it is derived from, and
    `other` where none of these has one."""

    def __init__(self, rows: Mapping[type, _R], other: _R) -> None:
        super().__init__(rows)
        self._other = other

    def __missing__(self, kind: type) -> _R:
        found = next((self[base] for base in kind.__mro__ if base in self), self._other)
        self[kind] = found  # the next time it is there
        return found
