"""How many calls linting takes may only fall: a figure that no machine and no neighbour changes."""

from __future__ import annotations

import calls
import pytest

# Thousands of calls by part, as `python tests/structure/calls.py` prints them.
MOST = {
    "analyses": 184,
    "base": 91,
    "cpp": 117,
    "dsl": 50,
    "fingerprints": 5,
    "frontends": 270,
    "host": 110,
    "host/cpp": 150,
    "host/datamodel": 44,
    "host/effects": 7,
    "host/explore": 22,
    "host/gpu": 110,
    "host/libs": 25,
    "host/python": 130,
    "host/torch": 153,
    "host/values": 225,
    "kernels": 0,
    "kernels/core": 427,
    "kernels/extents": 620,
    "kernels/languages": 173,
    "kernels/numeric": 683,
    "modules": 23,
    "ops": 0,
    "problems": 6,
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
