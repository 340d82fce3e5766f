"""What a run may still do: counts its calls, failures, tokens and money, and makes calls wait that come too fast."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from harness.proxy.base import Caps, Price
from harness.record.exchange import PROVIDER_FAULTS, CallStatus
from harness.record.usage import Usage

__all__ = ["Meter", "StopKind", "priced"]

StopKind = Literal["", "limit", "provider", "trouble"]
_BURST_S = 10.0  # calls of so many seconds may come at once


def priced(usage: Usage, price: Price | None, stated: float | None, *, reached: bool) -> Usage:
    """A usage with its cost: what the provider states, else by the price, else unknown. What never reached a model
    costs nothing.
    """
    if not reached:
        return replace(usage, cost_usd=0.0)
    if stated is not None or price is None:
        return replace(usage, cost_usd=stated)
    cost = (
        usage.input_tokens * price.input
        + usage.output_tokens * price.output
        + usage.cache_read_tokens * price.cache_read
        + usage.cache_write_tokens * price.cache_write
    ) / 1e6
    return replace(usage, cost_usd=cost)


class Meter:
    """What a run used so far. `stopped` is why no further call is made, in one sentence; `kind` whose doing that is."""

    def __init__(self, caps: Caps, clock: Callable[[], float] = time.monotonic) -> None:
        self.caps = caps
        self.stopped = ""
        self.kind: StopKind = ""
        self.usage = Usage(cost_usd=0.0)
        self.started = 0
        self._failures = 0
        self._clock = clock
        self._burst = max(1.0, caps.calls_per_minute * _BURST_S / 60)
        self._tokens, self._filled = self._burst, clock()

    def begin(self) -> int:
        """Counts a new call and returns its number; stops the run where one of its caps is reached."""
        self.started += 1
        caps, used = self.caps, self.usage
        if self.started > caps.calls:
            self.stop(f"the run has made its {caps.calls} calls", "limit")
        elif caps.output_tokens is not None and used.output_tokens >= caps.output_tokens:
            self.stop(f"the run has used its {caps.output_tokens} output tokens", "limit")
        elif caps.cost_usd is not None and used.cost_usd is None:
            self.stop("the run has a cap on its cost, and what its calls cost is not known", "limit")
        elif caps.cost_usd is not None and (used.cost_usd or 0.0) >= caps.cost_usd and used != Usage(cost_usd=0.0):
            self.stop(f"the run has spent its {caps.cost_usd:g} US dollars", "limit")
        return self.started

    def end(self, status: CallStatus, usage: Usage, *, counts: bool) -> None:
        """Adds the usage of a finished call; `counts` says whether it counts for the cap on failures in a row."""
        self.usage = self.usage + usage
        if not counts or status in ("gone", "limited"):
            return
        self._failures = 0 if status == "ok" else self._failures + 1
        if self._failures >= self.caps.failures_in_row:
            kind: StopKind = "provider" if status in PROVIDER_FAULTS else "limit"
            self.stop(f"{self._failures} calls in a row failed, the last one as {status}", kind)

    def stop(self, reason: str, kind: StopKind) -> None:
        """Ends the run's calls; the first reason stays."""
        if not self.stopped:
            self.stopped, self.kind = reason, kind

    async def turn(self) -> None:
        """Waits until the rate allows a call."""
        while (wait := self._wait()) > 0:
            await asyncio.sleep(wait)

    def _wait(self) -> float:
        now, rate = self._clock(), self.caps.calls_per_minute / 60
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * rate)
        self._filled = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return max((1 - self._tokens) / rate, 0.001)
