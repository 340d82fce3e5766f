"""What happens in a run, as one typed stream: an event a line in trajectory.jsonl (docs/trajectory.md has the schema).

An event says when, at which step (a step is a call of a model, counted from 1; 0 is before the first) and who saw it;
its data is one of the classes below, named by `kind`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from grader.record.bundle.codec import CodecError, from_json, to_json
from grader.record.cell import LATER
from harness.record.usage import Usage

__all__ = [
    "AgentEnded", "AgentStarted", "Event", "EventData", "FileChanged", "Finding", "FindingKind", "Graded", "JudgeUsed",
    "Message", "ModelCalled", "Note", "RunEnded", "RunStarted", "Seen", "ToolCall", "ToolResult", "event_from_json",
    "event_to_json", "kinds",
]  # fmt: skip

Seen = Literal["run", "proxy", "room", "judge"]
FindingKind = Literal["contamination", "breach", "tampering", "limit", "provider", "room"]


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The run as it was asked for. `budget_s` is in seconds of wall clock."""

    run_id: str
    agent: str
    version: str
    model: str
    problem: str
    target: str
    effort: str
    budget_s: float


@dataclass(frozen=True, slots=True)
class AgentStarted:
    """The agent's process began, in this kind of room; its budget runs from here."""

    argv: tuple[str, ...]
    room: str


@dataclass(frozen=True, slots=True)
class ModelCalled:
    """A call of a model ended, as the proxy saw it; see harness.record.exchange.ModelCall."""

    status: str
    model: str
    provider: str
    usage: Usage
    seconds: float
    stop: str
    detail: str = ""
    side: bool = False  # it does not go on with the conversation: a title, a summary, a helper's own


@dataclass(frozen=True, slots=True)
class Message:
    """Text of the conversation that was not there before; `thinking` is the model's own."""

    role: Literal["system", "user", "assistant"]
    text: str
    thinking: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model asks for a tool; `arguments` is JSON text as the model wrote it."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back; it belongs to the step of its call."""

    call_id: str
    output: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class FileChanged:
    """A file of the workspace has another content. `sha256` names it among the archive's objects; "" when removed."""

    path: str
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class JudgeUsed:
    """The agent asked the judge. `solution` is the SHA-256 of the file it asked about. On public keys only.

    `score` is the practice score (fraction of the least time), `error` the worst error in units of its bound.
    `waited_s` is spent waiting for a turn, `seconds` is the judge's work. `answer` is the SHA-256 of all that was sent
    back, among the archive's objects.
    """

    what: Literal["check", "benchmark"]
    solution: str
    outcome: str
    message: str
    score: float | None
    waited_s: float
    seconds: float
    error: float | None = field(default=None, metadata=LATER)
    answer: str = field(default="", metadata=LATER)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a reader of the result must know. `rule` is a slug; `evidence` quotes what it rests on.

    A `decisive` one takes the result its score. `step` is the model call it belongs to, 0 where it is none.
    """

    kind: FindingKind
    rule: str
    message: str
    evidence: str = ""
    decisive: bool = field(default=False, metadata=LATER)
    step: int = field(default=0, metadata=LATER)


@dataclass(frozen=True, slots=True)
class AgentEnded:
    """The agent's process tree is gone. `exit_code` is None where it was ended, of which `detail` says why; `left_over`
    counts the processes that it left."""

    exit_code: int | None
    reason: Literal["exit", "budget", "limit", "provider", "stopped", "killed"]
    left_over: int
    seconds: float
    detail: str = field(default="", metadata=LATER)


@dataclass(frozen=True, slots=True)
class Graded:
    """The grader's answer on the last solution, or on a snapshot of it that was graded for the curve."""

    solution: str
    outcome: str
    verdict: str
    score: float | None
    bundle: str
    final: bool = True


@dataclass(frozen=True, slots=True)
class RunEnded:
    """How the run ended; docs/runs.md has the table."""

    outcome: str
    ending: str
    retryable: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Note:
    """One sentence for people."""

    text: str


EventData = (
    RunStarted | AgentStarted | ModelCalled | Message | ToolCall | ToolResult | FileChanged | JudgeUsed | Finding
    | AgentEnded | Graded | RunEnded | Note
)  # fmt: skip
_CLASSES: Mapping[str, type[Any]] = {
    "".join(f"_{c.lower()}" if c.isupper() else c for c in kind.__name__).lstrip("_"): kind
    for kind in get_args(EventData)
}
_KINDS: Mapping[type[Any], str] = {kind: name for name, kind in _CLASSES.items()}


@dataclass(frozen=True, slots=True)
class Event:
    """`seq` counts from 1 without a gap; `time` is UTC since the epoch, `elapsed` seconds since the agent started."""

    seq: int
    time: float
    elapsed: float
    step: int
    seen: Seen
    data: EventData

    @property
    def kind(self) -> str:
        """The name of the data's class in the file: `tool_call` for ToolCall."""
        return _KINDS[type(self.data)]


def kinds() -> Mapping[str, type[Any]]:
    """The classes of data by their names in the file."""
    return dict(_CLASSES)


def event_to_json(event: Event) -> dict[str, Any]:
    """One flat object: the envelope's fields, `kind`, and the data's fields beneath `data`."""
    return {
        "seq": event.seq, "time": round(event.time, 3), "elapsed": round(event.elapsed, 3), "step": event.step,
        "seen": event.seen, "kind": event.kind, "data": to_json(event.data, type(event.data)),
    }  # fmt: skip


def event_from_json(data: object) -> Event:
    """The reverse of `event_to_json`. Raises CodecError where `data` is no event of a kind that this version knows."""
    if not isinstance(data, dict) or data.get("kind") not in _CLASSES:
        raise CodecError("this is no event that this version knows")
    numbers = (data.get("seq"), data.get("step"))
    times = (data.get("time"), data.get("elapsed"))
    if not all(type(n) is int for n in numbers) or not all(type(t) in (int, float) for t in times):
        raise CodecError("seq and step of an event are whole numbers, time and elapsed are numbers")
    if data.get("seen") not in get_args(Seen):
        raise CodecError(f"an event is seen by one of {', '.join(get_args(Seen))}")
    body = from_json(data.get("data"), _CLASSES[data["kind"]])
    return Event(data["seq"], float(data["time"]), float(data["elapsed"]), data["step"], data["seen"], body)
