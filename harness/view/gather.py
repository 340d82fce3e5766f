"""Reads a run's trajectory twice: once for its sizes, and once for as much of each text as the page has room for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TypeVar

from harness.record.archive import ArchiveError, RunFolder
from harness.record.events import (
    AgentEnded,
    Event,
    FileChanged,
    Finding,
    Graded,
    JudgeUsed,
    Message,
    ModelCalled,
    Note,
    RunEnded,
    ToolCall,
    ToolResult,
)  # fmt: skip
from harness.record.exchange import ModelCall
from harness.view.entries import Writer
from harness.view.model import Called, Entry, Noted, Snapshot, Step, Story, Timed
from harness.view.text import cap_within, cost, short

__all__ = ["Bounds", "gather"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the page has room for. `text` and `one_text` are bytes of the page."""

    steps: int = 6_000
    entries: int = 40_000
    text: int = 10_000_000
    one_text: int = 48_000
    listed: int = 1_000  # findings, uses of the judge, snapshots
    called: int = 50_000

    def halved(self) -> Bounds:
        """The bounds with every one halved."""
        return Bounds(*(max(getattr(self, field.name) // 2, 1) for field in fields(self)))


@dataclass(slots=True)
class _Survey:
    """What the first reading finds."""

    sizes: list[tuple[int, int]] = field(default_factory=list)  # of long texts, with their steps
    counts: Counter[int] = field(default_factory=Counter)
    marked: set[int] = field(default_factory=set)
    called: list[Called] = field(default_factory=list)
    findings: list[Noted] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)
    changes: list[Snapshot] = field(default_factory=list)
    agent_ended: AgentEnded | None = None
    run_ended: RunEnded | None = None
    fault: str = ""
    left_out: Counter[str] = field(default_factory=Counter)


def gather(folder: RunFolder, solution: str, bounds: Bounds | None = None) -> Story:
    """The story of a run; never raises for what its trajectory holds. `solution` is the name of the solution's file."""
    bounds = bounds or Bounds()
    survey = _survey(folder, solution, bounds)
    shown = _chosen(survey, bounds.steps)
    entries = max(cap_within((survey.counts[number] for number in shown), bounds.entries), 4)
    survey.sizes = [(number, size) for number, size in survey.sizes if number in shown]
    longest = min(cap_within((size for _, size in survey.sizes), bounds.text), bounds.one_text)
    calls, trouble = _calls(folder, shown)
    writer = Writer(folder, solution, longest)
    steps: dict[int, Step] = {}
    for event in _events(folder, []):
        entry = writer.entry(event)  # also of a step that is left out: later writes are compared with its own
        number = _home(event)
        if number not in shown:
            continue
        step = steps.setdefault(number, Step(number, event.elapsed))
        if isinstance(event.data, ModelCalled):
            _ended(step, event, event.data)
        elif entry is not None and len(step.entries) < entries:
            step.entries.append(entry)
            step.findings += entry.kind == "finding"
        else:
            step.entries_left_out += 1
    for step in steps.values():
        step.entries, step.call = _paired(step.entries), calls.get(step.number)
        step.gist = _gist(step)
    hidden = sum(step.entries_left_out for step in steps.values())
    remarks = [*_remarks(survey, longest, len(shown), hidden), *trouble]
    return Story(
        [steps[number] for number in sorted(steps)], len(survey.counts), survey.called, survey.findings, survey.timed,
        survey.changes, survey.agent_ended, survey.run_ended, remarks,
    )  # fmt: skip


def _home(event: Event) -> int:
    """The step that an event is shown at: a finding may name an earlier one than that in which it was made."""
    return isinstance(event.data, Finding) and event.data.step or event.step


def _events(folder: RunFolder, faults: list[str]) -> Iterator[Event]:
    """The trajectory up to where it can be read; what is wrong there goes to `faults`."""
    try:
        yield from folder.events()
    except (ArchiveError, OSError) as error:
        faults.append(f"the trajectory cannot be read to its end ({short(str(error), 300)})")


def _survey(folder: RunFolder, solution: str, bounds: Bounds) -> _Survey:
    survey, faults = _Survey(), list[str]()
    for event in _events(folder, faults):
        data = event.data
        step = _home(event)
        survey.counts[step] += not isinstance(data, ModelCalled)
        text = _text(event)
        if text:
            longer = len(text) > bounds.one_text
            survey.sizes.append((step, bounds.one_text + 1 if longer else cost(text)))
        if isinstance(data, ModelCalled):
            _add(survey, survey.called, Called(step, data.status, data.side, data.usage), bounds.called, "calls")
            if data.status != "ok" and len(survey.marked) < bounds.listed:
                survey.marked.add(step)
        elif isinstance(data, Finding):
            survey.marked.add(step)
            _add(survey, survey.findings, Noted(data, step), bounds.listed, "findings")
        elif isinstance(data, JudgeUsed | Graded):
            _add(survey, survey.timed, Timed(data, step, event.elapsed), bounds.listed, "uses of the judge")
        elif isinstance(data, FileChanged) and data.path == solution:
            number = len(survey.changes) + 1
            found = Snapshot(number, event.elapsed, step, data.sha256, data.bytes)
            _add(survey, survey.changes, found, bounds.listed, "snapshots of the solution")
        elif isinstance(data, AgentEnded):
            survey.agent_ended = data
        elif isinstance(data, RunEnded):
            survey.run_ended = data
    survey.fault = faults[0] if faults else ""
    return survey


def _add(survey: _Survey, into: list[_T], what: _T, most: int, name: str) -> None:
    if len(into) < most:
        into.append(what)
    else:
        survey.left_out[name] += 1


def _text(event: Event) -> str:
    """The text of an event that may be long."""
    data = event.data
    if isinstance(data, Message | Note):
        return data.text
    if isinstance(data, ToolCall):
        return data.arguments
    if isinstance(data, ToolResult):
        return data.output
    return data.message if isinstance(data, JudgeUsed) else ""


def _chosen(survey: _Survey, most: int) -> set[int]:
    """Which steps are shown: all; else the first and the last, and those with something wrong among the others."""
    numbers = sorted(survey.counts)
    if len(numbers) <= most:
        return set(numbers)
    marked = sorted(survey.marked)[: most // 5]
    half = (most - len(marked)) // 2
    return {*numbers[:half], *numbers[len(numbers) - half :], *marked}


def _calls(folder: RunFolder, shown: set[int]) -> tuple[dict[int, ModelCall], list[str]]:
    """The proxy's record of the calls that are shown, and what is wrong with it."""
    found: dict[int, ModelCall] = {}
    try:
        for call in folder.calls():
            if call.number in shown:
                found[call.number] = call
    except (ArchiveError, OSError) as error:
        return found, [f"the record of model calls cannot be read to its end ({short(str(error), 300)})"]
    return found, []


def _ended(step: Step, event: Event, data: ModelCalled) -> None:
    step.status, step.model, step.provider = data.status[:40], short(data.model, 80), short(data.provider, 80)
    step.usage, step.seconds, step.side = data.usage, data.seconds, data.side
    step.stop, step.detail, step.elapsed = short(data.stop, 60), short(data.detail, 400), event.elapsed


def _gist(step: Step) -> str:
    """A step in one line: what the model says and which tools it calls, else what went wrong or what was asked."""
    calls = [f"{entry.title} {entry.note}" for entry in step.entries if entry.kind == "call"]
    texts = {kind: _first(step.entries, kind) for kind in ("text", "user")}
    said = [texts["text"], *calls[:3], *([f"{len(calls) - 3} more"] if len(calls) > 3 else [])]
    return short("; ".join(filter(None, said)), 200) or short(step.detail or texts["user"], 140)


def _first(entries: list[Entry], kind: str) -> str:
    """The beginning of the first entry of a kind."""
    found = next((entry for entry in entries if entry.kind == kind and entry.blocks), None)
    return short(found.blocks[0].parts[0].text[:400], 90) if found is not None and found.blocks[0].parts else ""


def _paired(entries: list[Entry]) -> list[Entry]:
    """The entries with each result right after its call."""
    calls = {entry.call_id for entry in entries if entry.kind == "call"}
    results: dict[str, list[Entry]] = {}
    others: list[Entry] = []
    for entry in entries:
        if entry.kind == "result" and entry.call_id in calls:
            results.setdefault(entry.call_id, []).append(entry)
        else:
            others.append(entry)
    return [
        one for entry in others for one in (entry, *(results.pop(entry.call_id, ()) if entry.kind == "call" else ()))
    ]


def _remarks(survey: _Survey, longest: int, shown: int, hidden: int) -> Iterator[str]:
    if survey.fault:
        yield survey.fault
    cut = sum(size > longest for _, size in survey.sizes)
    if cut:
        yield f"{cut:,} of {len(survey.sizes):,} texts are longer than what this page shows of each ({longest:,} bytes)"
    if shown < len(survey.counts):
        yield f"steps are left out in the middle, {len(survey.counts) - shown:,} of {len(survey.counts):,}"
    if hidden:
        yield f"{hidden:,} more things that happened within steps are left out"
    for name, count in sorted(survey.left_out.items()):
        yield f"{count:,} more {name} are left out"
