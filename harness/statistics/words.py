"""Scores and their differences as texts: alike in terminals and on pages."""

from __future__ import annotations

__all__ = ["score", "signed"]


def score(value: float | None) -> str:
    """A share of the roofline with three digits after the point, two that count where it is small; a dash for none."""
    return "–" if value is None else f"{value:.2g}" if value < 0.01 or value >= 1000 else f"{value:.3f}"


def signed(value: float | None) -> str:
    """A difference of scores, with its sign; a dash for none."""
    if value is None or not value:
        return "–" if value is None else "0"
    return f"{'+' if value > 0 else '−'}{score(abs(value))}"
