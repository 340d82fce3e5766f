"""The run of a kernel written in Python: the parts that all such languages have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.kernels.core.run import Run
from kbh_lint.kernels.core.statements import Statements
from kbh_lint.kernels.languages.python.calls import PythonCalls
from kbh_lint.kernels.languages.python.expressions import PythonExpressions
from kbh_lint.kernels.languages.python.memory import PythonMemory
from kbh_lint.kernels.languages.python.names import PythonNames
from kbh_lint.kernels.languages.python.tiles import Tiles

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.python.language import KernelLanguage


class PythonRun(Run):
    """A run with a `language` and `tiles` beside what all runs have."""

    memory: PythonMemory
    names: PythonNames
    expressions: PythonExpressions
    calls: PythonCalls

    def __init__(
        self, name: str, fuel: int, language: KernelLanguage, outer: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(name, fuel)
        self.language = language
        self.convert_outer = outer
        self.unrolled: list[int] = []  # where the loops that are unrolled stand: memory made in one is its own
        self.tiles = Tiles(self)
        self.numbers = language.numbers(self)
        self.memory = PythonMemory(self)
        self.names = PythonNames(self)
        self.expressions = PythonExpressions(self)
        self.statements = Statements(self)
        self.calls = PythonCalls(self)
