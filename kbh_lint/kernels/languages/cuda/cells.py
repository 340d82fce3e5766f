"""Cells of CUDA C++: the memory of variables and arrays, read and written as numbers, structs and references."""

from __future__ import annotations

from typing import Any

from kbh_lint.base import dtypes, ir
from kbh_lint.kernels.core.expressions import Frame
from kbh_lint.kernels.core.joins import join, mix
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, Cell, Struct, V, in_order
from kbh_lint.kernels.languages.cuda.places import IN_MEMORY, Ref, VarCell
from kbh_lint.kernels.languages.cuda.types import CudaTypes, element, is_pointer

MAX_NESTED = 4  # structs in structs that are read or copied field by field


class CudaCells(CudaTypes):
    """Reads and writes the memory of one declaration."""

    def __init__(self, name: str, fuel: int) -> None:
        super().__init__(name, fuel)
        self.cells: dict[Any, Cell] = {}
        self.var_cells: dict[tuple[int, str], VarCell] = {}
        self.frames: list[Frame] = []  # keeps frames alive whose ids are keys above

    def field_of(self, value: V, name: str, loc: ir.Loc) -> V:
        """`value.name`."""
        raise NotImplementedError

    def with_field(self, base: V, path: tuple[str, ...], value: V, loc: ir.Loc) -> V:
        """`base` after `base.path = value`."""
        raise NotImplementedError

    def cell(self, key: Any, kind: str, name: str, dtype: str = "?") -> Cell:
        """The memory of one declaration in one call chain."""
        found = self.cells.get(key)
        if found is None:
            found = self.cells[key] = Cell(kind, name, -1, dtype)
        return found

    def variable_cell(self, frame: Frame, name: str) -> VarCell:
        """The memory of a local variable."""
        key = (id(frame), name)
        found = self.var_cells.get(key)
        if found is None:
            self.frames.append(frame)
            found = self.var_cells[key] = VarCell(frame, name)
        return found

    def variables_of(self, value: V, found: dict[tuple[int, str], tuple[Frame, str]]) -> None:
        cells = value.x.pointer.cells if isinstance(value.x, Ref) else value.cells
        for cell in cells:
            if isinstance(cell, VarCell) and (id(cell.frame), cell.variable) not in found:
                found[(id(cell.frame), cell.variable)] = (cell.frame, cell.variable)
                inner = cell.frame.env.get(cell.variable)
                if inner is not None and (inner.cells or isinstance(inner.x, Ref)):
                    self.variables_of(inner, found)

    def read_cell(self, cell: Cell, dtype: str, loc: ir.Loc, at: int | None = None) -> V | None:
        if not isinstance(cell, VarCell):
            return super().read_cell(cell, dtype, loc, at)
        value = cell.frame.env.get(cell.variable)
        for name in cell.path:
            if value is None:
                return None
            value = self.field_of(value, name, loc)
        if value is None:
            return None
        if isinstance(value.x, Struct) and dtype in dtypes.BITS:
            return self.bytes_of(value, dtype, loc)
        if value.dtype != dtype and dtype not in ("?", "") and not value.cells and value.x is not IN_MEMORY:
            return self.bitcast(value, dtype, loc)
        return value

    def bytes_of(self, value: V, dtype: str, loc: ir.Loc, depth: int = 0) -> V | None:
        """A struct read through a pointer to a number: any of its fields may be what is read."""
        parts: list[V] = []
        for item in value.x.fields.values() if isinstance(value.x, Struct) else ():
            if isinstance(item.x, Struct):
                found = self.bytes_of(item, dtype, loc, depth + 1) if depth < MAX_NESTED else None
                parts += [found] if found is not None else []
            elif item.cells and is_pointer(item.ct):
                read = [self.read_cell(cell, dtype, loc) for cell in in_order(item.cells)]
                parts += [r for r in read if r is not None]
            else:
                parts.append(item if item.dtype == dtype else self.bitcast(item, dtype, loc))
        return mix(parts) if parts else None

    def write_cell(self, cell: Cell, value: V, loc: ir.Loc, dtype: str = "?", at: int | None = None) -> None:
        if not isinstance(cell, VarCell):
            super().write_cell(cell, value, loc, dtype, at)
            return
        old = cell.frame.env.get(cell.variable)
        if old is not None and isinstance(old.x, Ref):
            self.store(old.x.pointer, value, loc, raw=True)
            return
        if cell.path:
            base = old if old is not None else UNKNOWN_V
            cell.frame.env[cell.variable] = self.with_field(base, cell.path, value, loc)
            return
        cell.frame.env[cell.variable] = self.updated(old, value, loc)

    def stride(self, pointer: V) -> int:
        ct = pointer.ct
        if ct is None or not is_pointer(ct):
            return 1
        inner = element(ct)
        size = self.size_of(inner).const
        return size if isinstance(size, int) else 1

    def updated(self, old: V | None, value: V, loc: ir.Loc) -> V:
        """A weak update that keeps the variable's own type."""
        if old is None:
            return value
        if old.dtype != value.dtype and old.dtype not in ("?", "") and not value.cells:
            value = self.bitcast(value, old.dtype, loc)
        if not old.origins and not old.cells and old.x is None:
            return value.with_(ct=old.ct or value.ct, const=NOTHING)
        return join(old, value)
