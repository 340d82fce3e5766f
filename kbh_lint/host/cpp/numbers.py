"""Whole numbers of C++ on the host."""

from __future__ import annotations

from typing import Any

from kbh_lint.host.values.tensors import Unknown


def divided(op: str, left: int, right: int) -> Any:
    """`/` and `%` of whole numbers, which truncate."""
    if right == 0:
        return Unknown((), "a division by zero")
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if op == "/" else left - quotient * right
