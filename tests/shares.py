"""Which cases of a test with very many run: `make test` takes a share of them, another at each commit.

A test is marked `share(parts)`: one in so many of its cases runs where KBH_TURN is set, drawn by what it holds (a
commit's hash), so that a run can be repeated, and what it leaves out comes at other commits. Without KBH_TURN all run:
by hand, and by `make test-full`. The mark is for cases that ask one question of many texts, not for those of which each
asks a question of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

import pytest

__all__ = ["TURN", "drawn", "part_of", "taken"]

TURN = "KBH_TURN"


def part_of(item: pytest.Item) -> int:
    """One in how many cases of its test runs."""
    mark = item.get_closest_marker("share")
    return 1 if mark is None else int(mark.args[0])


def drawn(cases: Iterable[tuple[str, int]], turn: str) -> set[str]:
    """Of cases, by their ids and one in how many of their test runs, those of this turn: at least one of each test."""
    tests: dict[tuple[str, int], list[str]] = {}
    for name, parts in cases:
        tests.setdefault((name.partition("[")[0], parts), []).append(name)
    return {name for (_, parts), names in tests.items() for name in _share(names, parts, turn)}


def _share(names: Sequence[str], parts: int, turn: str) -> list[str]:
    """As many as are due, in an order that nothing but the turn decides."""
    order = sorted(names, key=lambda name: sha256(f"{turn} {name}".encode()).digest())
    return order[: -(-len(names) // parts)]


def taken(request: pytest.FixtureRequest, parameter: str) -> list[Any]:
    """The values of a parameter in the tests of this file that run: for a fixture that does the work of all at once."""
    items = [item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function)]
    calls = [item.callspec.params for item in items if hasattr(item, "callspec")]
    values: list[Any] = []
    for params in calls:
        if parameter in params and params[parameter] not in values:
            values.append(params[parameter])
    return values
