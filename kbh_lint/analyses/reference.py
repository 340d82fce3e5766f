"""What the problem's reference does: the inputs it reads, and how like its operations those of a submission are."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from kbh_lint.analyses.flow import Reach
from kbh_lint.host.tensors import Event

MAX_OPERATIONS = 400


@dataclass(frozen=True, slots=True)
class Traits:
    """A reference's operations in order, and the inputs and state that its result depends on."""

    operations: tuple[str, ...] = ()
    reads: frozenset[str] = frozenset()


def traits(found: Reach) -> Traits:
    """Those of the reference whose result was followed."""
    return Traits(operations(found), frozenset(c.label.partition(":")[2] for c in found.outside))


def operations(found: Reach) -> tuple[str, ...]:
    """The operations a result comes from, in order, under one name each: `mm`, `bmm` and `@` are products.

    What one place in the code does again and again counts once, so that a loop over chunks is like its body.
    """
    steps = (e for e in found.events if e.kind in ("op", "library", "copy"))
    places: dict[Any, str] = {}
    for index, event in enumerate(steps):
        place = index if event.loc is None else (_name(event), event.loc, *event.stack[-1:])
        places.setdefault(place, _name(event))
    return tuple(places.values())[:MAX_OPERATIONS]


def _name(event: Event) -> str:
    name = event.name.rsplit(".", 1)[-1].rsplit("::", 1)[-1]
    if name in ("mm", "bmm", "matmul", "linear", "einsum", "addmm", "baddbmm"):
        return "product"
    if name in ("to", "float", "double", "half", "bfloat16", "type", "copy_", "clone", "contiguous"):
        return "convert"
    return name


def likeness(known: tuple[str, ...], found: Reach) -> float:
    """Share of matching operations, in order: 1 is the same list."""
    return SequenceMatcher(None, known, operations(found), autojunk=False).ratio()
