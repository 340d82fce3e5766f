"""Puts a run on one page that needs nothing else: no address but its own anchors, one script and one style by hash."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.record.words import STATES, fraction, score_lines
from grader.report.page.base import STYLE, PageError, environment
from harness.record.archive import RunFolder
from harness.record.events import Graded
from harness.record.run import RunRecord
from harness.view import charts
from harness.view.charts import money, tokens
from harness.view.diffs import Part
from harness.view.entries import seconds
from harness.view.gather import Bounds, gather
from harness.view.model import Noted, Snapshot, Story
from harness.view.solution import NAME, Solution, grading, load_solution, snapshots
from harness.view.text import cut, short, shown
from kbh_lint.findings import Related

__all__ = ["PageError", "render"]

HERE = Path(__file__).resolve().parent / "templates"
MOST_BYTES = 25_000_000
OPENED = 24  # a run of no more steps is shown with all of them open
KEYS = (
    ("j, k", "next and previous step"), ("o, Enter", "open or fold this step"), ("e", "open or fold all steps"),
    ("/", "filter the steps; Escape clears"), ("g s", "to the solution"), ("g f", "to the findings"),
    ("g c", "to the scores"), ("g t", "to the top"), ("?", "these keys"),
)  # fmt: skip
_SIGNS: Mapping[str, str] = {"add": "+ ", "del": "- "}


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the table beneath the scores."""

    elapsed: float
    step: int
    what: str
    outcome: str
    score: str
    snapshot: int
    solution: str


def render(folder: RunFolder, *, problems_dir: Path | None = None, bounds: Bounds | None = None, back: str = "") -> str:
    """The page of a run as HTML, of at most about MOST_BYTES. The same archive gives the same page; `back` is where its
    first link leads, on a board.

    Raises ArchiveError where the run's record cannot be read, and PageError. What is wrong with the rest of the
    archive is said on the page.
    """
    record = folder.load()
    bounds = bounds or Bounds()
    solution = load_solution(folder, record, problems_dir)
    page = _page(folder, record, bounds, solution, back)
    while len(page.encode()) > MOST_BYTES and bounds.steps > 1:  # it is all overhead: a hostile or a very long run
        bounds = bounds.halved()
        page = _page(folder, record, bounds, solution, back)
    return page


def _page(folder: RunFolder, record: RunRecord, bounds: Bounds, solution: Solution | None, back: str) -> str:
    story = gather(folder, NAME, bounds)
    changes = list(snapshots(folder, story.changes))
    shown_steps = {step.number for step in story.steps}
    style = _file(STYLE) + _file(HERE / "style.css")
    script = _file(HERE / "script.js")
    template = _environment().get_template("page.html.j2")
    return str(template.render(
        record=record, story=_with_record(story, record), shown=shown_steps, opened=_opened(story),
        facts=list(_facts(record)), sealed=record.room is not None and record.room.sealed,
        scores=_scores(folder, record), spent=_spent(record), split=charts.split_bar(_spent(record), 720),
        score_charts=_charts(charts.score_chart, story.timed, changes, record.budget_s, record.spent.agent),
        usage_charts=_charts(charts.usage_chart, story.called), score_rows=list(_rows(story, changes)),
        solution=solution, snapshots=changes, remarks=story.remarks, back=back,
        keys=KEYS, style=style, script=script, policy=_policy(style, script),
    ))  # fmt: skip


def _environment() -> Any:
    found = environment(HERE, shown)
    found.filters.update(
        brief=short, brief_text=lambda text, most: cut(text, most).text, seconds=seconds, tokens=tokens, money=money,
        signed=_signed,
        places=_places,
    )  # fmt: skip
    found.globals["STATES"] = STATES
    return found


def _file(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded from anywhere, and only this style and this script run."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    return (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; base-uri 'none'; "
        "form-action 'none'"
    )


def _signed(part: Part) -> str:
    sign = _SIGNS.get(part.kind, "  ")
    return "\n".join(sign + line for line in part.text.replace("\r\n", "\n").split("\n"))


def _places(related: Sequence[Related], most: int) -> list[Related]:
    """The first places, those that say the same of the same line once."""
    return list({(one.span.line, one.message): one for one in related[: 10 * most]}.values())[:most]


def _charts(make: Callable[..., charts.Chart | None], *given: object) -> list[charts.Chart]:
    """A picture for wide screens and one for narrow ones; none where there is nothing to draw."""
    return [chart for name, width in charts.WIDTHS if (chart := make(*given, name, width)) is not None]


def _opened(story: Story) -> set[int]:
    """Steps that are open at first: all of a short run, else those that failed or have findings."""
    if len(story.steps) <= OPENED:
        return {step.number for step in story.steps}
    return {step.number for step in [s for s in story.steps if s.findings or s.failed][:OPENED]}


def _with_record(story: Story, record: RunRecord) -> Story:
    """With the findings that only the record has."""
    known = {(n.finding.kind, n.finding.rule, n.finding.message) for n in story.findings}
    more = [Noted(f, f.step or None) for f in record.findings[:200] if (f.kind, f.rule, f.message) not in known]
    return Story(
        story.steps, story.steps_in_all, story.called, [*more, *story.findings], story.timed, story.changes,
        story.agent_ended, story.run_ended, story.remarks,
    )  # fmt: skip


def _scores(folder: RunFolder, record: RunRecord) -> list[tuple[str, str]]:
    """Scores by name, each with the verdict behind it."""
    cell, _, _ = grading(folder, record)
    if cell is not None:
        return list(score_lines(cell))
    standing = (
        f"{short(record.grade_outcome, 40)}{', --strict' if record.strict else ''}, verdict {record.verdict[:40]}"
    )
    named = (("peak_fraction", record.peak_fraction), ("roofline_fraction", record.roofline_fraction))
    return [(name, f"{fraction(value)} ({standing})") for name, value in named if value is not None]


def _spent(record: RunRecord) -> list[tuple[str, float]]:
    """Wall clock by what it was spent on; the judge's part is within the agent's."""
    spent = record.spent
    agent = max(spent.agent - spent.judge, 0.0)
    parts = (("prepare", spent.prepare), ("agent", agent), ("judge", spent.judge), ("lint", spent.lint),
             ("build", spent.build), ("check", spent.check), ("grade", spent.grade))  # fmt: skip
    return [(name, value) for name, value in parts if value > 0]


def _facts(record: RunRecord) -> Iterator[tuple[str, str]]:
    usage, spent = record.usage, record.spent
    yield "agent", short(record.harness or record.agent, 120)
    yield "model", short(record.model, 120) + (f", effort {short(record.effort, 40)}" if record.effort else "")
    yield "problem", f"{short(record.problem, 80)} on {short(record.target, 60)}, trial {record.trial}"
    share = f", {spent.agent / record.budget_s:.0%} used" if record.budget_s > 0 else ""
    yield "budget", f"{seconds(spent.agent)} of {seconds(record.budget_s)}{share}"
    yield "calls", f"{record.calls:,}, {record.failed_calls:,} of them failed"
    yield (
        "tokens",
        f"{tokens(usage.prompt_tokens)} sent ({tokens(usage.cache_read_tokens)} from a cache), "
        f"{tokens(usage.output_tokens)} answered ({tokens(usage.reasoning_tokens)} of them reasoning)",
    )
    yield "cost", money(usage.cost_usd)
    cli = record.cli_usage
    if cli is not None and (cli.prompt_tokens, cli.output_tokens) != (usage.prompt_tokens, usage.output_tokens):
        yield "the CLI counts", f"{tokens(cli.prompt_tokens)} sent, {tokens(cli.output_tokens)} answered"
    yield "room", _room(record)
    if record.changed_template:
        yield "template", "changed by the agent: " + short(", ".join(record.changed_template), 200)
    if record.exit_code is not None:
        yield "exit status", str(record.exit_code)
    versions = ", ".join(f"{short(k, 40)} {short(v, 40)}" for k, v in sorted(record.versions.items())[:20])
    if versions:
        yield "versions", versions


def _room(record: RunRecord) -> str:
    room = record.room
    if room is None:
        return "not recorded"
    gpu = f", GPU {short(room.gpu, 60)}" if room.gpu else ", no GPU"
    said = f"{room.kind}, {'sealed' if room.sealed else 'NOT SEALED'}, user {room.uid}{gpu}"
    return "; ".join([said, *(short(note, 160) for note in room.notes[:8])])


def _rows(story: Story, changes: Sequence[Snapshot]) -> Iterator[_Row]:
    numbers = {one.sha256: one.number for one in reversed(changes)}
    for one in story.timed[:500]:
        data = one.data
        what = ("final grading" if data.final else "grading") if isinstance(data, Graded) else data.what
        outcome = f"{data.outcome}, verdict {data.verdict}" if isinstance(data, Graded) else data.outcome
        score = "-" if data.score is None else f"{data.score:.4g}"
        snapshot = numbers.get(data.solution, 0)
        yield _Row(one.elapsed, one.step, what, short(outcome, 80), score, snapshot, short(data.solution[:12], 40))
