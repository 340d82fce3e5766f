"""How many calls linting takes may only fall: a figure that no machine and no neighbour changes."""

from __future__ import annotations

import calls
import pytest

# Thousands of calls by part, as `python tests/structure/calls.py` prints them.
MOST = {
    "analyses": 183,
    "base": 100,
    "cpp": 123,
    "dsl": 38,
    "fingerprints": 5,
    "frontends": 279,
    "host": 116,
    "host/cpp": 145,
    "host/datamodel": 43,
    "host/effects": 5,
    "host/explore": 28,
    "host/gpu": 108,
    "host/libs": 24,
    "host/python": 127,
    "host/torch": 158,
    "host/values": 224,
    "kernels": 0,
    "kernels/core": 433,
    "kernels/extents": 630,
    "kernels/languages": 171,
    "kernels/numeric": 695,
    "modules": 23,
    "ops": 0,
    "problems": 7,
    "rules": 37,
    "service": 0,
    "source": 2,
}
RISE, FALL = 1.01, 0.97  # of the sum: what one change may add, and what is written down once it is gone


@pytest.mark.slow
def test_linting_takes_no_more_calls_than_it_did() -> None:
    """Many changes that each add a little, which no clock shows, once came to eleven of a hundred."""
    now = calls.by_part(calls.counted())
    before, after = sum(MOST.values()), sum(now.values())
    moved = {part: now.get(part, 0) - MOST.get(part, 0) for part in sorted(now | MOST)}
    told = ", ".join(f"{part} {by:+}" for part, by in sorted(moved.items(), key=lambda one: -abs(one[1])) if by)
    said = f"linting the fixed set takes {after:,} thousand calls, where MOST says {before:,}: {told}."
    assert after <= before * RISE, (
        f"{said} Find what asks twice (`python tests/structure/calls.py` prints the functions, before and after). What"
        " an analysis cannot do without is written into MOST, and the commit says what it buys."
    )
    assert after >= before * FALL, f"{said} Write the lower figures into MOST, so that they stay."
