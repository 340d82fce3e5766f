"""A trajectory as turns of a conversation, which other formats are made of: each has what one step said and got."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from harness.record.archive import RunFolder
from harness.record.events import Event, Finding, Message, ModelCalled, ToolCall, ToolResult

__all__ = ["ExportError", "Turn", "arguments_of", "moment", "told", "turns"]

MOST_CHARACTERS = 512 << 20


class ExportError(Exception):
    """A trajectory cannot be exported; the text is one sentence."""


@dataclass(slots=True)
class Turn:
    """What belongs to one step, in order. `before` are messages of others than the model. `time` is UTC since the
    epoch."""

    step: int
    time: float
    before: list[Message] = field(default_factory=list)
    said: list[Message] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    end: ModelCalled | None = None

    @property
    def side(self) -> bool:
        """Whether the call is not part of the conversation."""
        return self.end is not None and self.end.side

    def text(self, *, thinking: bool) -> str:
        """What the model said or, with `thinking`, what it thought."""
        return "\n\n".join(message.text for message in self.said if message.thinking is thinking)

    @property
    def answered(self) -> bool:
        """Whether the model said or asked for anything."""
        return bool(self.said or self.calls)


def turns(folder: RunFolder) -> list[Turn]:
    """The turns of a run by step. Raises ArchiveError, and ExportError where there is more text than can be held."""
    found: dict[int, Turn] = {}
    left = MOST_CHARACTERS
    for event in folder.events():
        turn = found.setdefault(event.step, Turn(event.step, event.time))
        left -= _add(turn, event)
        if left < 0:
            raise ExportError(f"{folder.path} has more than {MOST_CHARACTERS:,} characters of text")
    return [found[step] for step in sorted(found)]


def _add(turn: Turn, event: Event) -> int:
    """Adds an event to its turn; returns how many characters of text it has."""
    data = event.data
    if isinstance(data, Message):
        (turn.said if data.role == "assistant" else turn.before).append(data)
        return len(data.text)
    if isinstance(data, ToolCall):
        turn.calls.append(data)
        return len(data.arguments)
    if isinstance(data, ToolResult):
        turn.results.append(data)
        return len(data.output)
    if isinstance(data, Finding):
        turn.findings.append(data)
    if isinstance(data, ModelCalled):
        turn.end, turn.time = data, event.time
    return 0


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """Arguments as an object; what is no JSON object is kept under `raw`."""
    try:
        given = json.loads(call.arguments, parse_constant=str) if call.arguments.strip() else {}
    except (ValueError, RecursionError):
        given = None
    return given if isinstance(given, dict) else {"raw": call.arguments}


def moment(time: float) -> str:
    """A time as ISO 8601 in UTC; the epoch where it is none."""
    try:
        return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return "1970-01-01T00:00:00.000+00:00"


def told(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Findings as plain data, for exports."""
    return [{"kind": f.kind, "rule": f.rule, "message": f.message, "step": f.step} for f in findings]
