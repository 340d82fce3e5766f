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


ALL = Asked(about="all")
FORK = Asked(about="fork")


@dataclass(frozen=True, slots=True)
class Fastest:
    """A decision: of several ways that a program times, the one with this `work` is taken for the fastest."""

    work: frozenset[Hashable]
