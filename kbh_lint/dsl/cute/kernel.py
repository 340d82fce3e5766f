"""CuTe DSL kernels: what their names mean."""

from __future__ import annotations

from kbh_lint.base import dtypes
from kbh_lint.dsl.cute import functions
from kbh_lint.dsl.tensors.run import TensorLanguage
from kbh_lint.kernels.core.value import V, constant
from kbh_lint.kernels.languages.python.call import Call


class Cute(TensorLanguage):
    """`@cute.kernel` functions."""

    packages = ("cutlass",)
    operations = functions.FUNCTIONS
    methods = functions.METHODS

    def element_type(self, path: str, name: str) -> str | None:
        """The element type that `name`, such as `Float32`, stands for in the module `path`; None for other names."""
        return dtypes.from_cutlass(name) if self.owns(path) else super().element_type(path, name)

    def attribute(self, path: str, name: str, deps: frozenset[str]) -> V:
        """The value of a module's attribute, such as `cute.arch.WARP_SIZE`."""
        return constant(32) if name == "WARP_SIZE" and self.owns(path) else super().attribute(path, name, deps)

    def symbol(self, path: str, call: Call) -> V:
        """The result of calling a function of the package by its full path."""
        return functions.symbol(path, call) if self.owns(path) else super().symbol(path, call)


LANGUAGE = Cute()
