"""A graded submission as text: verdict first, with the promises and the line that leaks; numbers after it."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from grader.record.cell import Cell, FindingRecord, PromiseRecord, TrialResult
from grader.record.words import (
    STATES,
    aligned,
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
from grader.report.view import View
from grader.silicon.shown import remarks
from kbh_lint.report.text import Paint, excerpt, one_line

__all__ = ["render"]

WIDTH = 110
MOST_FINDINGS = 6
MOST_CODE = 3
OUTCOME_COLOURS = {"accepted": "green", "flagged": "yellow", "refused": "yellow"}
VERDICT_COLOURS = {"clean": "green", "interesting": "yellow", "unproven": "yellow"}
STATE_COLOURS = {"kept": "green", "kept-by-precision": "green", "broken": "red"}


def render(view: View, *, colour: bool = False) -> str:
    """The whole report on one cell. Text of the submission is cleaned, so that it cannot drive a terminal."""
    paint, cell = Paint(colour), view.cell
    blocks = [_head(cell, paint), _findings(view, paint), _promises(cell, paint), _shapes(cell), _silicon(view)]
    blocks += [_trouble(cell), _scores(cell, paint), _baselines(cell), _foot(view)]
    return "\n\n".join("\n".join(lines) for lines in map(list, blocks) if lines) + "\n"


def _head(cell: Cell, paint: Paint) -> Iterator[str]:
    outcome = paint(cell.outcome, OUTCOME_COLOURS.get(cell.outcome, "red"))
    verdict = paint(cell.verdict.verdict, VERDICT_COLOURS.get(cell.verdict.verdict, "red"))
    strict = " under --strict" if cell.strict else ""
    yield f"{paint(one_line(cell.file), 'bold')}: {outcome}{strict}, verdict {verdict}"
    target = cell.target.label or cell.target.product
    yield f"  {cell.problem} on {one_line(target)}" + (f" ({cell.target.product})" if cell.target.label else "")
    if cell.reason:
        yield from wrap(one_line(cell.reason), WIDTH, initial_indent="  why: ", subsequent_indent="       ")


def _findings(view: View, paint: Paint) -> Iterator[str]:
    findings = view.cell.verdict.findings
    quoted: set[int] = set()
    for finding in findings[:MOST_FINDINGS]:
        yield from _finding(finding, paint)
        code = view.line(finding.line)
        if code and finding.line not in quoted and len(quoted) < MOST_CODE:
            quoted.add(finding.line)
            shown, _, _ = excerpt(code, 1, 2)
            yield f"    {finding.line:>5} {paint('|', 'blue')} {shown}"
    if len(findings) > MOST_FINDINGS:
        yield f"  and {len(findings) - MOST_FINDINGS} more findings"


def _finding(finding: FindingRecord, paint: Paint) -> Iterator[str]:
    word = paint(finding.verdict, VERDICT_COLOURS.get(finding.verdict, "red"))
    about = f"{finding.leak_class} [{finding.rule}, {finding.layer}]"
    yield from wrap(f"  {word} {one_line(about)}: {one_line(finding.message)}", WIDTH, subsequent_indent="    ")


def _promises(cell: Cell, paint: Paint) -> Iterator[str]:
    for promise in cell.verdict.promises:
        yield from _promise(promise, paint)


def _promise(promise: PromiseRecord, paint: Paint) -> Iterator[str]:
    state = paint(STATES[promise.state], STATE_COLOURS.get(promise.state, "yellow"))
    layers = ", ".join(f"{layer} {STATES[promise.layers[layer]]}" for layer in in_order(promise.layers))
    missing = f"; not looked at: {', '.join(promise.missing)}" if promise.missing else ""
    yield f"  promise {one_line(promise.id)}: {state} ({layers}{missing})"
    if promise.reason and promise.state not in promise.accepts:
        yield from wrap(one_line(promise.reason), WIDTH, initial_indent="      ", subsequent_indent="      ")


def _shapes(cell: Cell) -> Iterator[str]:
    launched = any(score.launch is not None for score in cell.shapes)
    head = ("shape", "result", "t_scored", "claimed", "sealed", "clock", "floor", "roofline", "spread", "launch")
    rows: list[tuple[str, ...]] = [head if launched else head[:-1]]
    for label, result, score in shape_rows(cell):
        status = "" if result is None else result.status
        if score is None:
            rows.append((one_line(label), status, *("-" for _ in rows[0][2:])))
            continue
        veto = f" ({score.vetoed} of {score.samples} vetoed)" if score.vetoed else ""
        row = (
            one_line(label), status, seconds(score.t_scored), seconds(score.t_event) + veto, seconds(score.t_sealed),
            score.clock, seconds(score.t_floor), fraction(score.roofline_fraction), spread(score),
        )  # fmt: skip
        rows.append((*row, launch(score)) if launched else row)
    if len(rows) == 1:
        return
    yield from aligned(rows)
    if cell.shapes:
        yield "  claimed: by the submission's process; sealed: proof, by the judge's clock; the larger one is scored"
    for label, result, _ in shape_rows(cell):
        rows_said = "" if result is None else rows_of([result])
        if result is not None and rows_said:
            yield f"  {one_line(label)}: {result.compared} of {result.calls} calls compared, {rows_said}"
    if launched:
        yield "  launch: claimed too, what the host adds to a call for which the device waits; never scored"


def _silicon(view: View) -> Iterator[str]:
    """What profilers saw, and what could not be had."""
    if view.silicon is None:
        return
    if view.silicon.shapes:
        yield "  one call of each shape under the profiler; operations are shares of those that the problem needs, and"
        yield "  bytes read of those that a cold call must read"
        yield from aligned([[one_line(text) for text in row] for row in silicon_rows(view.silicon)])
    yield from (f"  {remark}" for remark in remarks(view.silicon))
    yield from (f"  note: {one_line(note)}" for note in view.silicon.notes)


def _trouble(cell: Cell) -> Iterator[str]:
    """What went wrong in the first trial that is not right."""
    trial: TrialResult | None = next((t for t in cell.trials if t.status != "right"), None)
    if trial is None:
        return
    said = {cell.reason}
    for shape in trial.shapes:
        if shape.message and shape.message not in said:
            said.add(shape.message)
            yield from wrap(f"{one_line(shape.message)}", WIDTH, initial_indent="  ", subsequent_indent="    ")
    for line in trial.detail.splitlines()[-8:]:
        yield f"    {one_line(line)[:WIDTH]}"


def _scores(cell: Cell, paint: Paint) -> Iterator[str]:
    for name, text in score_lines(cell):
        yield f"  {paint(name, 'bold')} {text}"
    if cell.scores is None:
        yield f"  no score: {standing(cell)}"
    yield from (f"  note: {one_line(note)}" for note in notes_of(cell))


def _baselines(cell: Cell) -> Iterator[str]:
    """What modules of ours take on the same shapes."""
    if not cell.baselines:
        return
    yield "  baselines of the problem, by the same judge and the same clocks; no part of a score"
    yield from aligned([[one_line(text) for text in row] for row in baseline_rows(cell)])
    for name, text in baseline_lines(cell):
        yield from wrap(one_line(f"{name}: {text}"), WIDTH, initial_indent="  ", subsequent_indent="    ")


def _foot(view: View) -> Iterator[str]:
    if view.compared:
        yield f"  compared: {one_line(view.compared)}"
    if view.folder:
        yield f"  bundle {one_line(view.folder)}"
    if view.head:
        yield f"  head   {view.head}"
