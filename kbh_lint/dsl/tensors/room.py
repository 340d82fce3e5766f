"""Shared memory that a kernel allocates by itself: whether any GPU has so much."""

from __future__ import annotations

from math import prod

from kbh_lint.base import dtypes
from kbh_lint.kernels.core.value import V
from kbh_lint.kernels.languages.python.call import Call


def noted(call: Call, sizes: V | None, dtype: str, most: int, *, apart: bool) -> None:
    """Marks the kernel as too large if an allocation in shared memory takes more than `most` bytes; if all lie `apart`,
    those of the kernel together. Branches that may not be compiled are exempt."""
    facts = call.m.facts
    count, bits = _elements(sizes), dtypes.STORED.get(dtype)
    if not count or bits is None or call.m.statements.control.doubtful:
        return
    facts.shared[call.loc if apart else None] = count * bits // 8
    facts.too_large = facts.too_large or sum(facts.shared.values()) > most


def _elements(sizes: V | None) -> int:
    """How many elements a size has, or the sizes of a tuple; 0 where that is not known."""
    if sizes is None:
        return 0
    parts = sizes.x if isinstance(sizes.x, tuple) and sizes.x else (sizes,)
    known = [side for part in parts for side in (part.const if isinstance(part.const, tuple) else (part.const,))]
    return prod(side for side in known if type(side) is int) if all(type(side) is int for side in known) else 0
