"""Likeness of a submission's torch operations to those of the problem's reference."""

from __future__ import annotations

from difflib import SequenceMatcher

from kbh_lint.analyses.flow import Reach
from kbh_lint.host.tensors import Event

MAX_OPERATIONS = 400


def operations(found: Reach) -> tuple[str, ...]:
    """The operations a result comes from, in order, under one name each: `mm`, `bmm` and `@` are products."""
    return tuple(_name(e) for e in found.events if e.kind in ("op", "library", "copy"))[:MAX_OPERATIONS]


def _name(event: Event) -> str:
    name = event.name.rsplit(".", 1)[-1].rsplit("::", 1)[-1]
    if name in ("mm", "bmm", "matmul", "linear", "einsum", "addmm", "baddbmm"):
        return "product"
    if name in ("to", "float", "half", "bfloat16", "type", "copy_", "clone", "contiguous"):
        return "convert"
    return name


def likeness(known: tuple[str, ...], found: Reach) -> float:
    """Share of matching operations, in order: 1 is the same list."""
    return SequenceMatcher(None, known, operations(found), autojunk=False).ratio()
