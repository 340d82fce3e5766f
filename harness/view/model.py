"""What the page says of a run, gathered and bounded; templates only lay it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.record.events import AgentEnded, Finding, Graded, JudgeUsed, RunEnded
from harness.record.exchange import ModelCall
from harness.record.usage import Usage
from harness.view.diffs import Part

__all__ = ["Block", "Called", "Entry", "Noted", "Snapshot", "Step", "Story", "Timed"]

Form = Literal["prose", "code", "diff", "shell", "pair"]


@dataclass(frozen=True, slots=True)
class Block:
    """A text with its size as it was; `left_out` says what is not shown of it, "" for nothing."""

    form: Form
    parts: tuple[Part, ...]
    label: str = ""
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened within a step. `kind` is also its class in the style. `call_id` ties a result to its
    call. `anchor` is a place on the page that tells more.
    """

    kind: str
    title: str
    note: str = ""
    blocks: tuple[Block, ...] = ()
    folded: bool = False
    bad: bool = False
    call_id: str = ""
    anchor: str = ""


@dataclass(slots=True)
class Step:
    """A call of a model with what came of it; step 0 is what happened before the first. Filled while events are read.

    `elapsed` is in seconds since the agent started. `call` is the proxy's record of it, where there is one.
    """

    number: int
    elapsed: float
    status: str = ""
    model: str = ""
    provider: str = ""
    usage: Usage | None = None
    seconds: float = 0.0
    stop: str = ""
    detail: str = ""
    side: bool = False
    gist: str = ""
    entries: list[Entry] = field(default_factory=list)
    entries_left_out: int = 0
    findings: int = 0
    call: ModelCall | None = None

    @property
    def failed(self) -> bool:
        """Whether the call ended otherwise than well."""
        return self.status not in ("", "ok")


@dataclass(frozen=True, slots=True)
class Called:
    """What a call used, for the chart."""

    step: int
    status: str
    side: bool
    usage: Usage


@dataclass(frozen=True, slots=True)
class Noted:
    """A finding with its step; None where only the run's record has it."""

    finding: Finding
    step: int | None


@dataclass(frozen=True, slots=True)
class Timed:
    """A use of the judge, or a grading, with when and at which step."""

    data: JudgeUsed | Graded
    step: int
    elapsed: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A content of the solution. `parts` is what changed since the one before; `remark` says why there is none."""

    number: int
    elapsed: float
    step: int
    sha256: str
    bytes: int
    parts: tuple[Part, ...] = ()
    added: int = 0
    removed: int = 0
    left_out: int = 0
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Story:
    """All that the trajectory tells. `remarks` are sentences on what the page leaves out or could not read."""

    steps: Sequence[Step]
    steps_in_all: int
    called: Sequence[Called]
    findings: Sequence[Noted]
    timed: Sequence[Timed]
    changes: Sequence[Snapshot]
    agent_ended: AgentEnded | None
    run_ended: RunEnded | None
    remarks: Sequence[str]
