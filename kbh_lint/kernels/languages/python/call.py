"""One call inside a kernel that is written in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir, values
from kbh_lint.kernels.core.value import UNKNOWN_V, Shape, V

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.python.run import PythonRun


class Call:
    """Arguments of one call, and the run it is part of. `name` is that of what is called, not how it is spelled."""

    __slots__ = ("m", "args", "kwargs", "node", "loc", "name")

    def __init__(self, m: PythonRun, args: list[V], kwargs: dict[str, V], node: ir.Expr, name: str = "") -> None:
        self.m = m
        self.args = args
        self.kwargs = kwargs
        self.node = node
        self.loc: ir.Loc = node.loc
        self.name = name

    def get(self, position: int, name: str) -> V | None:
        """The argument at a position, or the keyword argument `name`; None if it is not given."""
        if 0 <= position < len(self.args):
            return self.args[position]
        return self.kwargs.get(name)

    def dtype(self, position: int, name: str, default: str = "?") -> str:
        """The name of the element type that an argument stands for, else `default`; the argument counts as having
        decided a type."""
        value = self.get(position, name)
        if value is None or not isinstance(value.const, values.DType):
            if value is not None and isinstance(value.const, str):
                self.m.facts.decide(value)
                return dtypes.from_triton(value.const) or default
            return default
        self.m.facts.decide(value)
        return value.const.name

    def shape(self, value: V | None) -> Shape | None:
        """The shape that an argument stands for; None where unknown."""
        if value is None:
            return None
        self.m.tiles.sized(value)
        if isinstance(value.x, tuple):
            return tuple(v.const if isinstance(v.const, int) else None for v in value.x)
        return (value.const,) if isinstance(value.const, int) else None


Builtin = Callable[[Call], V]
Method = Callable[[V, Call], V]


def first(call: Call) -> V:
    """The first argument, whether given by position or by keyword."""
    if call.args:
        return call.args[0]
    return next(iter(call.kwargs.values()), UNKNOWN_V)
