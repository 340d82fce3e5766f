"""How many elements one program of a Triton kernel stores at most, where that is certain."""

from __future__ import annotations

from collections.abc import Mapping

from kbh_lint.base import ir, values
from kbh_lint.base.limits import Budget
from kbh_lint.dsl.triton.kernel import LANGUAGE
from kbh_lint.kernels.core.value import Cell, V
from kbh_lint.kernels.languages.python.memory import PythonMemory
from kbh_lint.kernels.languages.python.run import PythonRun

FUEL = 20_000


def stored_elements(
    kernel: values.Func, args: Mapping[str, values.KernelArg], budget: Budget | None = None
) -> dict[int, int]:
    """How many elements one program stores at most, by storage id.

    A storage is left out where that is uncertain: it is written in a loop, in a function that the kernel calls, or
    through tiles of unknown size. Nothing is known of a kernel that could not be read to its end.
    """
    fuel = FUEL if budget is None else budget.grant(FUEL)
    run = LANGUAGE.run(kernel.node.name, fuel)
    memory = run.memory = ExtentMemory(run)
    try:
        run.flags.start(args)
        run.calls.run_kernel(kernel, args)
        whole = not run.facts.unreads
    except Exception:  # whatever it was, nothing is certain
        whole = False
    if budget is not None:
        budget.take(fuel - max(run.fuel, 0))
    found: dict[int, int | None] = {}
    for (storage, _), count in memory.extents.items():
        before = found.get(storage, 0)
        found[storage] = None if before is None or count is None else before + count
    return {storage: count for storage, count in found.items() if count is not None} if whole else {}


class ExtentMemory(PythonMemory):
    """Remembers the sizes of the tiles that are stored."""

    def __init__(self, run: PythonRun) -> None:
        super().__init__(run)
        self.extents: dict[tuple[int, ir.Loc], int | None] = {}

    def store(self, pointer: V, value: V, loc: ir.Loc, *, raw: bool = False) -> None:
        super().store(pointer, value, loc, raw=raw)
        count: int | None = 1
        for size in pointer.shape if pointer.shape is not None else (None,):
            count = None if count is None or size is None else count * size
        if self.run.statements.depth > 1 or self.run.frame.loops:
            count = None
        for cell in pointer.cells:
            if cell.kind == "param":
                self.extents[cell.storage, loc] = count

    def write_cell(self, cell: Cell, value: V, loc: ir.Loc, dtype: str = "?", at: int | None = None) -> None:
        super().write_cell(cell, value, loc, dtype, at)
        if cell.kind == "param":  # not through a tile, unless `store` says so afterwards
            self.extents.setdefault((cell.storage, loc), None)
