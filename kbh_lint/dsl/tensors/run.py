"""The run of a kernel on tensors, and the language that makes such runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbh_lint.dsl.tensors.calls import TensorCalls
from kbh_lint.dsl.tensors.expressions import TensorExpressions
from kbh_lint.dsl.tensors.names import TensorNames
from kbh_lint.dsl.tensors.objects import Objects
from kbh_lint.dsl.tensors.rows import Rows
from kbh_lint.dsl.tensors.statements import TensorStatements
from kbh_lint.kernels.languages.python.language import KernelLanguage
from kbh_lint.kernels.languages.python.run import PythonRun


class TensorRun(PythonRun):
    """A run with `objects` beside what those of Python have.

    A tensor is a value with the cells of memory behind it. Layouts, partitions and slices only say which part of it a
    thread works on, so all of them are views of the same cells. Loading gives a value without cells.
    """

    names: TensorNames
    expressions: TensorExpressions
    statements: TensorStatements
    calls: TensorCalls

    def __init__(
        self, name: str, fuel: int, language: KernelLanguage, outer: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(name, fuel, language, outer)
        self.objects = Objects(self)
        self.rows = Rows()
        self.names = TensorNames(self)
        self.expressions = TensorExpressions(self)
        self.statements = TensorStatements(self)
        self.calls = TensorCalls(self)


class TensorLanguage(KernelLanguage):
    """A language whose kernels work on tensors over memory."""

    def run(self, name: str, fuel: int, outer: Callable[[Any], Any] | None = None) -> TensorRun:
        """A new run for the kernel `name`."""
        return TensorRun(name, fuel, self, outer)
