"""One call of something a CUDA file does not define."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint import ir

if TYPE_CHECKING:
    from kbh_lint.kernels.cuda import CudaMachine
from kbh_lint.kernels.core.value import UNKNOWN_V, V


class CppCall:
    """One call of something the file does not define."""

    __slots__ = ("m", "path", "args", "explicit", "nodes", "loc")

    def __init__(
        self, m: CudaMachine, path: str, args: list[V], explicit: tuple[Any, ...], nodes: list[Any], loc: ir.Loc
    ) -> None:
        self.m = m
        self.path = path
        self.args = args
        self.explicit = explicit
        self.nodes = nodes
        self.loc = loc

    def arg(self, position: int) -> V:
        """An argument, or the unknown value."""
        return self.args[position] if position < len(self.args) else UNKNOWN_V
