"""cuTile kernels: what their names, attributes and operators mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kbh_lint.base import ir
from kbh_lint.dsl.cutile.functions import METHODS, OPERATIONS_OF_TILES, multiplied
from kbh_lint.dsl.cutile.types import element
from kbh_lint.kernels.core.value import UNKNOWN_V, V, constant
from kbh_lint.kernels.languages.python.arithmetic import elementwise_name
from kbh_lint.kernels.languages.python.call import Call
from kbh_lint.kernels.languages.python.expressions import PythonExpressions
from kbh_lint.kernels.languages.python.language import KernelLanguage
from kbh_lint.kernels.languages.python.run import PythonRun

PACKAGES = ("cuda.tile", "cuda.tile_experimental")
_SIZES = frozenset("shape strides ndim tile_shape size".split())
_NUMBERS = {"inf": math.inf, "nan": math.nan, "pi": math.pi, "e": math.e}


class TileExpressions(PythonExpressions):
    """Evaluates expressions on tiles: sizes of arrays, which are known only when the kernel runs, and products by
    `@`."""

    def value_attribute(self, base: V, node: ir.Attr) -> V:
        if base.cells and node.name in _SIZES:
            return V("i32", "i32")
        return super().value_attribute(base, node)

    def e_binary(self, node: ir.Binary) -> V:
        if node.op == "@":
            return multiplied(self.run, self.eval(node.left), self.eval(node.right), None, node.loc)
        return super().e_binary(node)


class TileRun(PythonRun):
    """A run of a cuTile kernel."""

    def __init__(
        self, name: str, fuel: int, language: KernelLanguage, outer: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(name, fuel, language, outer)
        self.expressions = TileExpressions(self)


class CuTile(KernelLanguage):
    """`@ct.kernel` functions."""

    packages = PACKAGES
    operations = OPERATIONS_OF_TILES
    methods = METHODS

    def run(self, name: str, fuel: int, outer: Callable[[Any], Any] | None = None) -> TileRun:
        """A new run for the kernel `name`."""
        return TileRun(name, fuel, self, outer)

    def owns(self, path: str) -> bool:
        """Whether a path belongs to this language: `cuda.tile.mma` does, other parts of the package `cuda` do not."""
        return path.startswith(tuple(f"{package}." for package in self.packages))

    def element_type(self, path: str, name: str) -> str | None:
        """The element type that `name` stands for in the module `path`, as in `ct.bfloat16` or `np.float32`; None for
        other names."""
        return element(name) if path in (*self.packages, "numpy") else super().element_type(path, name)

    def attribute(self, path: str, name: str, deps: frozenset[str]) -> V:
        """The value of a module's attribute: constants of `math` and `numpy` beside what all languages have."""
        if path in ("math", "numpy") and name in _NUMBERS:
            return constant(_NUMBERS[name], deps)
        return super().attribute(path, name, deps)

    def function(self, name: str, call: Call) -> V | None:
        """The result of calling an operation or a mathematical function; None for other names."""
        found = super().function(name, call)
        if found is not None:
            return found
        made = elementwise_name(call, name)
        return None if made is UNKNOWN_V else made


LANGUAGE = CuTile()
