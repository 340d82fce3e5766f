"""Marks and cells for C++ objects that have an address."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.kernels.core.frames import Frame
from kbh_lint.kernels.core.value import UNKNOWN_V, Cell, CType, V

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.cuda.run import CudaRun

LANES = frozenset("xyzwrgba")
PLACES = (ir.Name, ir.Index, ir.Attr, ir.Unary, ir.Call)  # expressions that may refer to what has an address
GIVEN = "given"  # marks the structs of an array that a launch gave


class VarCell(Cell):
    """A local variable whose address was taken, or one field of it."""

    __slots__ = ("frame", "variable", "path")

    def __init__(self, frame: Frame, variable: str, path: tuple[str, ...] = ()) -> None:
        super().__init__("var", variable)
        self.frame = frame
        self.variable = variable
        self.path = path

    def sub(self, name: str) -> Cell:
        cell = self.subs.get(name)
        if cell is None:
            cell = self.subs[name] = VarCell(self.frame, self.variable, (*self.path, name))
        return cell


class Ref:
    """Marks a variable that is a reference: reading and writing it goes through the pointer."""

    __slots__ = ("pointer",)

    def __init__(self, pointer: V) -> None:
        self.pointer = pointer


class InMemory:
    """Marks a struct that lives in memory: its fields are read from the cells."""


IN_MEMORY = InMemory()
TENSOR_MAP = CType(pointers=1, name="CUtensorMap")


class CppCall:
    """A call of a function that the file does not define: its path, its arguments and the run."""

    __slots__ = ("m", "path", "args", "explicit", "nodes", "loc")

    def __init__(
        self, m: CudaRun, path: str, args: list[V], explicit: tuple[Any, ...], nodes: list[Any], loc: ir.Loc
    ) -> None:
        self.m = m
        self.path = path
        self.args = args
        self.explicit = explicit
        self.nodes = nodes
        self.loc = loc

    def arg(self, position: int) -> V:
        """The argument at a position; the unknown value if it is not given."""
        return self.args[position] if position < len(self.args) else UNKNOWN_V


Builtin = Callable[[CppCall], V]  # what such a call does, and gives
