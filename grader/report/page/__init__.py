"""One self-contained page for graded submissions: no script, nothing from elsewhere, light and dark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.record.cell import Cell, FindingRecord, ShapeResult, ShapeScore, TrialResult
from grader.record.words import (
    STATES,
    baseline_lines,
    baseline_rows,
    fraction,
    in_order,
    launch,
    notes_of,
    rows_of,
    score_lines,
    seconds,
    shape_rows,
    silicon_rows,
    spread,
    standing,
)
from grader.report.page.base import STYLE, PageError, environment, shown
from grader.report.page.plot import Plot, plot
from grader.report.view import View
from grader.silicon.shown import remarks

__all__ = ["PageError", "ShapeView", "render", "shape_views"]

HERE = Path(__file__).resolve().parent
CONTEXT = 2  # lines of code around the one that a finding is about
MOST_FINDINGS = 12
MOST_COLUMNS = 400


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str
    marked: bool


@dataclass(frozen=True, slots=True)
class ShapeView:
    """A shape as the page shows it. `worst` is the largest error of its compared calls as a share of the bound, `rows`
    says how many calls were compared on rows only."""

    label: str
    result: ShapeResult | None
    score: ShapeScore | None
    plot: Plot | None
    compared: int
    calls: int
    worst: float | None
    rows: str


def render(views: Sequence[View]) -> str:
    """The page as HTML. Raises PageError."""
    if len({view.cell.protocol for view in views}) > 1:
        raise PageError("scores of two protocols never stand on one page; write a page for each")
    page = _environment().get_template("page.html.j2")
    style = STYLE.read_text(encoding="utf-8")
    groups = [(kind, [v for v in views if v.cell.target.peaks == kind]) for kind in ("datasheet", "measured")]
    return str(page.render(views=views, style=style, groups=[group for group in groups if group[1]]))


def _environment() -> Any:
    found = environment(HERE, shown)
    found.filters.update(
        seconds=seconds, fraction=fraction, spread=spread, standing=standing, in_order=in_order, launch=launch
    )
    found.globals.update(
        STATES=STATES, shapes=shape_views, quote=_quote, findings=_findings, scores=score_lines, notes=notes_of,
        sandboxes=_sandboxes, log=_log, silicon_rows=silicon_rows, baseline_rows=baseline_rows,
        baseline_lines=baseline_lines, remarks=remarks,
    )  # fmt: skip
    return found


def _findings(view: View) -> Sequence[FindingRecord]:
    return view.cell.verdict.findings[:MOST_FINDINGS]


def _quote(view: View, number: int) -> list[_Line]:
    """The line that a finding is about and those around it; none where the file is not known."""
    if not view.line(number):
        return []
    around = range(max(1, number - CONTEXT), min(len(view.source), number + CONTEXT) + 1)
    return [_Line(n, view.line(n)[:MOST_COLUMNS], n == number) for n in around]


def shape_views(cell: Cell) -> Iterator[ShapeView]:
    """Yields each shape of a cell with its plot and its sums over the trials."""
    for label, result, score in shape_rows(cell):
        results = [r for trial in cell.trials for r in trial.shapes if r.shape == label]
        shares = [
            case.error / case.tolerance
            for r in results
            for case in r.cases
            if case.error is not None and case.tolerance
        ]
        yield ShapeView(
            label, result, score, plot([r.timing for r in results if r.timing is not None], score),
            sum(r.compared for r in results), sum(r.calls for r in results), max(shares, default=None),
            rows_of(results),
        )  # fmt: skip


def _sandboxes(cell: Cell) -> list[str]:
    """What held the submission's processes, each kind once."""
    said = []
    for trial in cell.trials:
        box = trial.sandbox
        network = "with network" if box.network else "no network"
        said.append("; ".join([f"{box.kind}, user {box.uid}, {network}", *box.notes]))
    return list(dict.fromkeys(said))


def _log(view: View, trial: TrialResult) -> str:
    return (view.logs or {}).get(trial.log, "")
