"""The run of a kernel written in CUDA C++: its parts."""

from __future__ import annotations

from kbh_lint.base import ir
from kbh_lint.kernels.core.run import Run
from kbh_lint.kernels.languages.cuda.calls import CudaCalls
from kbh_lint.kernels.languages.cuda.expressions import CudaExpressions
from kbh_lint.kernels.languages.cuda.fields import CudaFields
from kbh_lint.kernels.languages.cuda.memory import CudaMemory
from kbh_lint.kernels.languages.cuda.names import CudaNames
from kbh_lint.kernels.languages.cuda.numbers import CudaNumbers
from kbh_lint.kernels.languages.cuda.objects import CudaObjects
from kbh_lint.kernels.languages.cuda.statements import CudaStatements
from kbh_lint.kernels.languages.cuda.types import CudaTypes


class CudaRun(Run):
    """A run with `types`, `fields` and `objects` beside what all runs have."""

    memory: CudaMemory
    names: CudaNames
    numbers: CudaNumbers
    expressions: CudaExpressions
    statements: CudaStatements
    calls: CudaCalls

    def __init__(self, name: str, fuel: int) -> None:
        super().__init__(name, fuel)
        self.place: ir.Loc = ()  # the statement that runs now
        self.types = CudaTypes(self)
        self.fields = CudaFields(self)
        self.objects = CudaObjects(self)
        self.memory = CudaMemory(self)
        self.names = CudaNames(self)
        self.numbers = CudaNumbers(self)
        self.expressions = CudaExpressions(self)
        self.statements = CudaStatements(self)
        self.calls = CudaCalls(self)

    def close(self) -> None:
        """Breaks the references between the run, its parts, and the classes and their scopes."""
        self.types.cpp.classes.close()
        super().close()
