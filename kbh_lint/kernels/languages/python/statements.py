"""Statements of Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.kernels.core.branches import Side
from kbh_lint.kernels.core.facts import Origins
from kbh_lint.kernels.core.origins import NO_ORIGINS
from kbh_lint.kernels.core.statements import Statements

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.python.run import PythonRun


class PythonStatements(Statements):
    """Counts the branches around what runs."""

    run: PythonRun

    def __init__(self, run: PythonRun) -> None:
        super().__init__(run)
        self.doubtful = 0  # branches around what runs that may be left out
        self.rounds: list[int] = []  # where the loops that are unrolled stand: memory made in one is its own

    def branches(
        self, bodies: Sequence[Iterable[Any]], sides: Sequence[tuple[Side, ...]] = (), test: Origins = NO_ORIGINS
    ) -> bool:
        self.doubtful += 1
        try:
            return super().branches(bodies, sides, test)
        finally:
            self.doubtful -= 1
