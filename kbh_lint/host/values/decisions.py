"""What a run may be told to do otherwise, apart from branches, which are known by their places."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

from kbh_lint.base.records import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """One question that a submission asks, answered the other way at all branches on it.

    `caller`: what was called or read, `symbol`, tells who runs it. `memory`: memory that nothing has written, read as
    `symbol`. `all`: every question about the caller at once; `fork`: the run is the child of a process that it forks.
    """

    symbol: str = ""
    about: Literal["caller", "memory", "all", "fork"] = "caller"


FOUND = "whether a key finds what was kept under one, where nobody knows that they differ"
ALL = Asked(about="all")
FORK = Asked(about="fork")


@dataclass(frozen=True, slots=True)
class Later:
    """A decision: the branch with this `key` is taken the other way by a call after the second one, as earlier calls,
    which have nothing yet, cannot take it."""

    key: Hashable


@dataclass(frozen=True, slots=True)
class Fastest:
    """A decision: of several ways that a program times, the one with this `work` is taken for the fastest."""

    work: frozenset[Hashable]
