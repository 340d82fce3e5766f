"""A kernel language that is written in Python: its name on programs, and its operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from kbh_lint.base import dtypes, values
from kbh_lint.kernels.core.numbers import Numbers
from kbh_lint.kernels.core.value import V, constant
from kbh_lint.kernels.languages.python.call import Builtin, Call, Method
from kbh_lint.kernels.languages.python.run import PythonRun


class KernelLanguage:
    """A kernel language; each derives a class, whose `operations` are what its kernels may call."""

    packages: ClassVar[tuple[str, ...]] = ()  # what its paths begin with
    operations: ClassVar[Mapping[str, Builtin]] = {}  # by the last part of the path
    methods: ClassVar[Mapping[str, Method]] = {}  # of values
    numbers: ClassVar[type[Numbers]] = Numbers  # which type an operation has
    rows: ClassVar[bool] = False  # of a language of tensors: whether an index may take a row, of which one takes more
    regions: ClassVar[frozenset[str]] = frozenset()  # operations whose arguments `A[m, k]` are tiles that begin there

    def run(self, name: str, fuel: int, outer: Callable[[Any], Any] | None = None) -> PythonRun:
        """A new run for the kernel `name`. `outer` converts host values that the kernel sees."""
        return PythonRun(name, fuel, self, outer)

    def owns(self, path: str) -> bool:
        """Whether a path belongs to one of the language's packages."""
        return path.partition(".")[0] in self.packages

    def element_type(self, path: str, name: str) -> str | None:
        """The element type called `name` in the module `path`; None for other names."""
        return dtypes.from_torch(name) if path == "torch" else None

    def attribute(self, path: str, name: str, deps: frozenset[str]) -> V:
        """The value of the attribute `name` of the module `path`."""
        found = self.element_type(path, name)
        return constant(values.Sym(f"{path}.{name}") if found is None else values.DType(found), deps)

    def symbol(self, path: str, call: Call) -> V:
        """The result of calling a function by its full path."""
        if self.owns(path):
            return call.m.calls.builtin(path.rpartition(".")[2], path, call)
        return call.m.calls.not_read(f"a call of {path}", call)

    def function(self, name: str, call: Call) -> V | None:
        """The result of calling the operation `name`; None if the language has none of that name."""
        handler = self.operations.get(name)
        return handler(call) if handler is not None else None

    def method(self, base: V, name: str, call: Call) -> V | None:
        """The result of calling the method `name` of a value; None if values have none of that name."""
        handler = self.methods.get(name)
        return handler(base, call) if handler is not None else None

    def lacks(self, path: str) -> bool:
        """Whether it is certain that no version of the language has a name with this path."""
        return False
