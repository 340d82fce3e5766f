"""Which argument of a call each parameter of a function gets, whatever the domain of the values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from kbh_lint.base import ir

T = TypeVar("T")


class Matched(NamedTuple, Generic[T]):
    """The arguments of a call by parameter, what `*args` collects, and the parameters without an argument, whose
    defaults are still to be evaluated in the function's own scope."""

    given: dict[str, T]
    collected: dict[str, tuple[T, ...]]
    missing: list[ir.Param]


def matched(params: Iterable[ir.Param], args: Sequence[T], keywords: Mapping[str, T]) -> Matched[T]:
    """Binds arguments to parameters as Python does: which argument each parameter gets, what `*args` collects, and
    which parameters get none. C++ has no `keywords`."""
    found: Matched[T] = Matched({}, {}, [])
    position = 0
    for param in params:
        if param.kind == "star":
            found.collected[param.name] = tuple(args[position:])
            position = len(args)
        elif param.name in keywords:
            found.given[param.name] = keywords[param.name]
        elif position < len(args) and param.kind == "positional":
            found.given[param.name] = args[position]
            position += 1
        else:
            found.missing.append(param)
    return found
