"""Many cells of one command as a table, each number with the verdict on it in the same line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from grader.record.cell import Cell
from grader.record.words import aligned, numbers, standing, times
from grader.report.view import View
from kbh_lint.report.text import one_line

__all__ = ["render"]


def render(views: Sequence[View], failed: int) -> str:
    """The table. `failed` could not be graded and are no cells."""
    cells = [view.cell for view in views]
    names: list[str] = list(dict.fromkeys(one.name for cell in cells for one in cell.baselines))
    rows = [("submission", "problem", "target", "outcome and verdict", "score", *(f"over {name}" for name in names))]
    rows += [_row(cell, names) for cell in cells]
    counts = Counter(cell.outcome for cell in cells)
    said = [f"{count} {outcome}" for outcome, count in counts.most_common()]
    said += [f"{failed} could not be graded"] if failed else []
    return "\n".join([*aligned(rows), f"  {len(cells) + failed} submissions: {', '.join(said)}"]) + "\n"


def _row(cell: Cell, names: Sequence[str]) -> tuple[str, ...]:
    speedups: dict[str, float | None] = {one.name: one.speedup for one in cell.baselines}
    return (
        one_line(cell.file), cell.problem, cell.target.id, standing(cell), _score(cell),
        *(times(speedups.get(name)) for name in names),
    )  # fmt: skip


def _score(cell: Cell) -> str:
    name, text = next(numbers(cell), ("", "none"))
    return f"{name} {text}".strip()
