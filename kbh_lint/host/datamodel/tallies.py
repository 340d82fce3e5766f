"""Methods of collections.Counter."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.host.datamodel import iteration, operators
from kbh_lint.host.values import bounds, keys, unknowns
from kbh_lint.host.values.containers import Tally

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


TALLY = frozenset("update subtract most_common elements total copy".split())


def tally_method(
    interp: Run, owner: Tally, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """A method that collections.Counter has of its own."""
    bounds.visited(interp, owner)
    if name in ("update", "subtract"):
        given = args[0] if args else {}
        counts: list[tuple[Any, Any]] = list(kwargs.items())
        counts += (
            given.items() if isinstance(given, dict) else [(i, 1) for i in iteration.materialise(interp, given, loc)]
        )
        for key, count in counts:
            op = "+" if name == "update" else "-"
            owner[keys.check_key(key)] = operators.binary(interp, op, owner.get(key, 0), count, loc)
        return None
    if name == "copy":
        return copy.copy(owner)
    if not all(type(count) is int for count in owner.values()):
        return unknowns.merged(interp, *owner.values(), why=f"Counter.{name}")
    if name == "total":
        return sum(owner.values())
    if name == "elements":
        bounds.items(interp, sum(max(count, 0) for count in owner.values()))
        return [key for key, count in owner.items() for _ in range(count)]
    most = sorted(owner.items(), key=lambda item: -item[1])
    return most[: args[0]] if args and isinstance(args[0], int) else most
