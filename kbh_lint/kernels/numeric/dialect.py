"""What a kernel language adds to the evaluation on numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base.values import UNKNOWN

if TYPE_CHECKING:
    from kbh_lint.base import ir
    from kbh_lint.base.values import Made
    from kbh_lint.kernels.numeric.builtins import Args, Builtin
    from kbh_lint.kernels.numeric.machine import Machine
    from kbh_lint.kernels.numeric.state import Frame, Method, Ptr


class Dialect:
    """The differences of one language."""

    elements = False  # whether an index into memory is an element of it, read and written like a variable

    def attribute(self, m: Machine, value: object, name: str, frame: Frame) -> Any:
        """`value.name`; None where nothing is special about it."""
        return None

    def argument(self, m: Machine, node: ir.Expr, callee: object, frame: Frame) -> Any:
        """An argument that stands for a place in memory; None for any other."""
        return None

    def method(self, m: Machine, callee: Method, packed: Args) -> Any:
        """A call of a method; NotImplemented for one that is not the language's own."""
        return NotImplemented

    def place(self, value: Ptr, index: object, site: int) -> Ptr:
        """Where `value[index]` is; asked only where indices are elements."""
        return value

    def read(self, m: Machine, value: Ptr | Made, index: object, site: int) -> Any:
        """What `value[index]` holds; asked only where indices are elements."""
        return UNKNOWN

    def builtin(self, path: str) -> Builtin | None:
        """The function behind a symbol, or a Python built-in by its bare name."""
        return None
