"""Marks and cells for C++ objects that have an address."""

from __future__ import annotations

from kbh_lint.kernels.core.expressions import Frame
from kbh_lint.kernels.core.value import Cell, CType, V

LANES = frozenset("xyzwrgba")


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
