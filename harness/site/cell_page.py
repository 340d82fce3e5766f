"""The page of a trial: what its number measures, how it was timed, and where its source says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from grader.record.cell import Cell, FindingRecord
from grader.record.words import LAYERS, notes_of, score_lines
from grader.report.page import shape_views
from harness.record.events import Finding as RunFinding
from harness.record.events import Graded
from harness.site.common import render
from harness.site.model import Detail, Site, Trial
from harness.site.roofline import WIDTHS, Roofline, roofline
from harness.view import charts
from harness.view.text import cost, short
from kbh_lint.findings import Finding

__all__ = ["FULL", "LEAN", "Bounds", "cell_part", "cell_page"]

CONTEXT = 2  # lines around one that a finding is about
MOST_COLUMNS = 300
MOST_RELATED = 6
SOLUTION = "solution.py"
_AT_STEP = re.compile(r"step \d+: ")  # before what a grading takes over from its run's record


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a page has room for: findings, lines of the source (0: only those that findings are about) with their bytes,
    shapes with a plot of their samples, and uses of the judge."""

    findings: int = 20
    lines: int = 3_000
    bytes: int = 200_000
    plots: int = 12
    timed: int = 100


FULL = Bounds()
LEAN = Bounds(findings=6, lines=0, bytes=0, plots=3, timed=12)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str
    marked: bool = False
    step: int = 0


@dataclass(frozen=True, slots=True)
class _Found:
    """A finding with the lines that it is about; `places` say what is seen at each."""

    verdict: str
    leak_class: str
    rule: str
    layer: str
    message: str
    line: int
    step: int
    quotes: tuple[tuple[_Line, ...], ...]
    places: tuple[tuple[int, str], ...] = ()
    again: bool = False  # its lines stand above already


@dataclass(frozen=True, slots=True)
class _Use:
    """A row of the table beneath the progress curve."""

    elapsed: float
    step: int
    what: str
    outcome: str
    score: float | None


def cell_page(site: Site, trial: Trial, among: Sequence[Trial], bounds: Bounds = FULL) -> str:
    """The whole page, for the folder `cells/`. `among` are all trials of the same model on the same problem."""
    part = cell_part(site, trial, among, bounds, top="../")
    title = f"{short(trial.title, 60)} on {short(trial.facts.problem, 60)}: {trial.mark}"
    return render("cell_page.html.j2", top="../", title=title, here="", part=part)


def cell_part(site: Site, trial: Trial, among: Sequence[Trial], bounds: Bounds = FULL, *, top: str = "") -> str:
    """The middle of a trial's page, as HTML; `top` is the path from the page to the site's top."""
    detail = site.source.detail(trial)
    cell, record = detail.cell, detail.record
    problem = site.problems.get(trial.facts.problem)
    shapes = list(shape_views(cell)) if cell is not None else []
    found = _once(_found(detail, bounds.findings))
    listed, others = _findings(detail)
    in_all = len(listed) + len(others)
    source, left_out = _source(detail, found, bounds)
    steps = trial.id in site.transcripts
    return render(
        "cell.html.j2", top=top, site=site, trial=trial, facts=trial.facts,
        among=[one for one in among if one.id != trial.id],
        cell=cell, record=record, problem=problem, scores=list(score_lines(cell)) if cell is not None else [],
        layers=_layers(cell), shapes=shapes, plotted=[one for one in shapes if one.plot][: bounds.plots],
        notes=list(notes_of(cell)) if cell is not None else [],
        rooflines=_both(lambda name, width: roofline(cell, problem, name, width)) if cell is not None else [],
        curves=_curves(detail), uses=_uses(detail)[: bounds.timed], uses_in_all=len(detail.timed),
        found=found, more_found=max(in_all - len(found), 0), noted=_noted(detail, bounds.findings), source=source,
        left_out=left_out, lines=len(detail.source), transcript=f"{top}runs/{trial.page}.html" if steps else "",
        fault=detail.fault, bundle=detail.bundle,
    )  # fmt: skip


def _both(make: Callable[[str, int], Roofline | None]) -> list[Roofline]:
    """A picture for wide screens, and one for narrow ones."""
    return [made for name, width in WIDTHS if (made := make(name, width)) is not None]


def _curves(detail: Detail) -> list[charts.Chart]:
    record = detail.record
    if record is None or not detail.timed:
        return []
    made = (
        charts.score_chart(detail.timed, detail.changes, record.budget_s, record.spent.agent, name, width)
        for name, width in charts.WIDTHS
    )
    return [chart for chart in made if chart is not None]


def _uses(detail: Detail) -> list[_Use]:
    rows = []
    for one in detail.timed:
        data = one.data
        what = ("final grading" if data.final else "grading") if isinstance(data, Graded) else data.what
        outcome = f"{data.outcome}, verdict {data.verdict}" if isinstance(data, Graded) else data.outcome
        rows.append(_Use(one.elapsed, one.step, short(what, 40), short(outcome, 80), data.score))
    return rows


def _layers(cell: Cell | None) -> list[str]:
    """The layers that any promise of the cell names, from what is read to what is run."""
    if cell is None:
        return []
    named = {layer for one in cell.verdict.promises for layer in (*one.layers, *one.missing)}
    return [layer for layer in LAYERS if layer in named]


def _noted(detail: Detail, most: int) -> list[RunFinding]:
    return list(detail.record.findings[:most]) if detail.record is not None else []


def _findings(detail: Detail) -> tuple[list[Finding], list[FindingRecord]]:
    """The linter's findings; of other layers, and without a report, those of the cell that its run does not tell."""
    records = detail.cell.verdict.findings if detail.cell is not None else ()
    told = {one.message for one in detail.record.findings} if detail.record is not None else set()  # with their steps
    others = [one for one in records if not (detail.findings and one.layer in ("source", "ptx"))]
    others = [one for one in others if one.layer != "run" or _AT_STEP.sub("", one.message) not in told]
    return [one for one in detail.findings if one.severity != "info"], others


def _found(detail: Detail, most: int) -> Iterator[_Found]:
    """The findings, of the linter's with all places of theirs."""
    listed, others = _findings(detail)
    shown = listed[:most]
    for one in shown:
        here = PurePath(one.span.path).name == SOLUTION
        lines = range(one.span.line, min(max(one.span.end_line, one.span.line), one.span.line + 8) + 1) if here else ()
        places = [
            (place.span.line, short(place.message, 200))
            for place in one.related[:MOST_RELATED]
            if PurePath(place.span.path).name == SOLUTION
        ]
        marked = sorted({*lines, *(line for line, _ in places)})
        yield _Found(
            one.verdict, one.leak_class, one.rule, one.layer, one.message, one.span.line if here else 0,
            _step(detail, one.span.line) if here else 0, tuple(_quotes(detail, marked)), tuple(dict.fromkeys(places)),
        )  # fmt: skip
    for record in others[: most - len(shown)]:
        yield _Found(
            record.verdict, record.leak_class, record.rule, record.layer, record.message, record.line,
            _step(detail, record.line), tuple(_quotes(detail, [record.line] if record.line else [])),
        )  # fmt: skip


def _once(found: Iterable[_Found]) -> list[_Found]:
    """The findings, without lines that one before them quotes just so."""
    seen: set[tuple[tuple[_Line, ...], ...]] = set()
    made = []
    for one in found:
        made.append(replace(one, quotes=(), again=bool(one.quotes)) if one.quotes in seen else one)
        seen.add(one.quotes)
    return made


def _step(detail: Detail, line: int) -> int:
    return detail.steps[line - 1] if 1 <= line <= len(detail.steps) else 0


def _quotes(detail: Detail, marked: Sequence[int]) -> Iterator[tuple[_Line, ...]]:
    """Lines with those around them, in as few pieces as there are."""
    lines = [line for line in marked[:24] if 1 <= line <= len(detail.source)]
    piece: list[_Line] = []
    for number in sorted({n for line in lines for n in range(max(line - CONTEXT, 1), line + CONTEXT + 1)}):
        if number > len(detail.source):
            break
        if piece and number != piece[-1].number + 1:
            yield tuple(piece)
            piece = []
        text = detail.source[number - 1].removesuffix("\r")[:MOST_COLUMNS]
        piece.append(_Line(number, text, number in lines, _step(detail, number)))
    if piece:
        yield tuple(piece)


def _source(detail: Detail, found: Sequence[_Found], bounds: Bounds) -> tuple[list[_Line], int]:
    """The source's lines as far as there is room, and how many are left out."""
    marked = {line.number for one in found for quote in one.quotes for line in quote if line.marked}
    shown: list[_Line] = []
    room = bounds.bytes
    for number, line in enumerate(detail.source[: bounds.lines], 1):
        text = line.removesuffix("\r")[: 4 * MOST_COLUMNS]
        room -= cost(text) + 8
        if room < 0:
            break
        shown.append(_Line(number, text, number in marked))
    return shown, len(detail.source) - len(shown)
