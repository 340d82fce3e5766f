"""What model calls used: tokens by kind, and money."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Usage", "total"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of model calls. `input_tokens` counts those that no cache had; `cache_read_tokens` and
    `cache_write_tokens` are beside it. `output_tokens` includes `reasoning_tokens`. `cost_usd` is None where no price
    is known.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None

    def __add__(self, other: Usage) -> Usage:
        """The sum; its cost is unknown where either is."""
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
        )

    @property
    def prompt_tokens(self) -> int:
        """All tokens that were sent, from a cache or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


def total(parts: Iterable[Usage]) -> Usage:
    """The sum of usages; the cost of none at all is 0."""
    found = Usage(cost_usd=0.0)
    for part in parts:
        found = found + part
    return found
