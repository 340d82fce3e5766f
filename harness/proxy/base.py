"""What the proxy is told: where models are, what it may spend, and what was pinned. Plain data; no network here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.record.exchange import Dialect

__all__ = ["Caps", "Price", "Route"]


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens of each kind."""

    input: float
    output: float
    cache_read: float = 0.0
    cache_write: float = 0.0


@dataclass(frozen=True, slots=True)
class Route:
    """One upstream: `kbh run AGENT NAME/MODEL PROBLEM` goes there and nowhere else.

    `urls` has the base URL for each dialect that it speaks (the dialect's usual path is added). `key_variable` names
    the environment variable with the key, `key_file` a file; neither for an upstream without. `providers` is the
    order in which a router must take them, with no fallback to others; where it is not empty each answer must name one
    of them. `models` maps names to those that an answer may carry instead (a dated release); `prices` by model.
    """

    name: str
    urls: Mapping[Dialect, str]
    key_variable: str = ""
    key_file: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    providers: tuple[str, ...] = ()
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Caps:
    """What a run may do. Beyond `failures_in_row`, `calls`, `cost_usd` or `output_tokens` every further call is refused
    and the run ends; calls over `calls_per_minute` wait. Sizes in bytes, times in seconds.
    """

    calls: int = 5000
    calls_per_minute: int = 120
    at_once: int = 8
    failures_in_row: int = 12
    cost_usd: float | None = None
    output_tokens: int | None = None
    request_bytes: int = 16 << 20
    answer_bytes: int = 32 << 20
    connect_s: float = 30.0
    silent_s: float = 300.0  # without a byte of an answer
    call_s: float = 1800.0
