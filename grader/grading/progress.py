"""What a grading tells of itself while it works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["Progress", "Stage", "Tell"]

Stage = Literal["read", "lint", "sandbox", "build", "trial", "evidence", "score", "baseline"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Something to tell people: a stage began, is at something, has to wait, or is done.

    `of` says which trial of how many, or which baseline.
    """

    stage: Stage
    state: Literal["begin", "at", "wait", "done"]
    text: str = ""
    of: str = ""


Tell = Callable[[Progress], None]
