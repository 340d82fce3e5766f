"""A run: what was asked for, how it ended, and what it used. It is kept as run.json, as linter and grader read it.

`outcome` is what counts: PASS (a cell with a score), FAIL (the agent's own result is none), ERR (nobody can say, for
something else failed). `ending` is its class; docs/runs.md says which evidence makes which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from grader.record.cell import LATER
from harness.record.events import Finding
from harness.record.usage import Usage

__all__ = ["FORMAT", "Ending", "Outcome", "RoomRecord", "RunRecord", "Spent", "State"]

FORMAT = 1
State = Literal["preparing", "running", "ended", "grading", "done"]
Outcome = Literal["PASS", "FAIL", "ERR", ""]
Ending = Literal[
    "", "agent-stop", "budget", "provider-credit", "provider-auth", "provider-rate", "provider-unavailable",
    "provider-cut", "provider-swapped", "limit", "template-tampering", "breach-attempt", "infrastructure",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class RoomRecord:
    """Where the agent ran. `sealed` is False for --no-sandbox, for ever. `gpu` is a UUID or ""."""

    kind: Literal["bubblewrap", "none"]
    sealed: bool
    uid: int
    gpu: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of wall clock by what they were spent on. `agent` is what the budget bounds; `judge` is within it."""

    prepare: float = 0.0
    agent: float = 0.0
    judge: float = 0.0
    lint: float = 0.0
    build: float = 0.0
    check: float = 0.0
    grade: float = 0.0


@dataclass(frozen=True, slots=True)
class RunRecord:
    """run.json. `harness` is the agent's name with its version; `solution` the SHA-256 of solution.py, "" without one.

    `cli_usage` is what the agent's CLI says it used, None where it says nothing; `usage` is the proxy's count and what
    counts. `template` has the SHA-256 of each file that was given, `changed_template` those that were found changed.
    `cell` names the bundle of the final grading within the archive. `gpu` is the UUID of the GPU that judge and grader
    used, "" without one; whether the room had it too is the room's to say. `sweep_key` names the cell
    of a sweep that the run was made for, "" without one.
    """

    run_id: str
    agent: str
    harness: str
    model: str
    problem: str
    target: str
    effort: str
    budget_s: float
    trial: int
    state: State
    started: float = 0.0
    ended: float = 0.0
    outcome: Outcome = ""
    ending: Ending = ""
    retryable: bool = False
    detail: str = ""
    room: RoomRecord | None = None
    usage: Usage = field(default_factory=Usage)
    cli_usage: Usage | None = None
    calls: int = 0
    failed_calls: int = 0
    exit_code: int | None = None
    solution: str = ""
    template: Mapping[str, str] = field(default_factory=dict)
    changed_template: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    spent: Spent = field(default_factory=Spent)
    grade_outcome: str = ""
    verdict: str = ""
    peak_fraction: float | None = None
    roofline_fraction: float | None = None
    cell: str = ""
    strict: bool = True
    versions: Mapping[str, str] = field(default_factory=dict)
    gpu: str = field(default="", metadata=LATER)
    sweep_key: str = field(default="", metadata=LATER)
    format: int = field(default=FORMAT, metadata=LATER)
