"""Memory that a kernel written in Python allocates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.kernels.core.memory import Memory
from kbh_lint.kernels.core.rounds import unmoved
from kbh_lint.kernels.core.totals import NOWHERE
from kbh_lint.kernels.core.value import Cell, V
from kbh_lint.kernels.languages.python.kept_totals import still

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.python.run import PythonRun


class PythonMemory(Memory):
    """Memory with one cell for each place in the code that allocates."""

    run: PythonRun

    def __init__(self, run: PythonRun) -> None:
        super().__init__(run)
        self.allocated: dict[Any, Cell] = {}  # registers, shared and tensor memory, by the place that allocates it

    def still(self) -> frozenset[int]:
        frame, target = self.run.frame, self.target
        if target is None or isinstance(target, ir.Call):
            return NOWHERE if target is None else still(frame, target)
        return frozenset(id(loop) for loop in unmoved(frame.func, frame.inside, target, undeclared=True))

    def at_place(self, key: object, kind: str, label: str, dtype: str) -> Cell:
        """The memory that `key`, a place in the code, allocates; the same on each call."""
        cell = self.allocated.get(key)
        if cell is None:
            cell = self.allocated[key] = Cell(kind, label, -1, dtype)
        return cell

    def tensor(self, kind: str, dtype: str, loc: ir.Loc, name: str = "", *, one: bool = False) -> V:
        """A tensor in memory that is allocated at `loc`, once for each chain of calls that leads there. With `one`, all
        tensors of this name are the same."""
        key = name if one else (kind, name, loc, self.run.frame.key, *self.run.unrolled)
        cell = self.at_place(key, kind, f"{name or kind} {len(self.allocated)}", dtype)
        return V(dtype, dtype, cells=frozenset((cell,)))
