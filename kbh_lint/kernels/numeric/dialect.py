"""What a kernel language adds to the evaluation on numbers. The dialect that all others derive from is Triton's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kbh_lint import ir
    from kbh_lint.kernels.numeric.builtins import Builtin
    from kbh_lint.kernels.numeric.machine import Machine
    from kbh_lint.kernels.numeric.state import Frame, Method


class Dialect:
    """The differences of one language."""

    elements = False  # whether an index into memory is an element of it, as in CuTe DSL

    def attribute(self, value: object, name: str) -> Any:
        """`value.name`; None where nothing is special about it."""
        return None

    def argument(self, m: Machine, node: ir.Expr, callee: object, frame: Frame) -> Any:
        """An argument that stands for a place in memory; None for any other."""
        return None

    def renamed(self, callee: Method) -> Method:
        """A method by the name that CuTe DSL has for it."""
        return callee

    def builtin(self, path: str) -> Builtin | None:
        """The function behind a symbol, or a Python built-in by its bare name."""
        from kbh_lint.kernels.numeric.triton import triton_builtin  # its operations need the machine, which needs this

        return triton_builtin(path)


TRITON = Dialect()
