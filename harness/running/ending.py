"""How a run ended, decided from what the proxy, the room and the grader recorded, and never from what a CLI printed.

The table is read from the top; the first row whose evidence is there decides. `docs/runs.md` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.record.exchange import CallStatus
from harness.record.run import Ending, Outcome

__all__ = ["Evidence", "How", "Reason", "decide", "table"]

Reason = Literal["exit", "budget", "limit", "provider", "stopped", "killed"]
SCORED = ("accepted", "flagged")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a run when it is over.

    `lost`: the harness itself was cut while the agent worked. `trouble`: what of ours or of the machine failed, in one
    sentence. `reason`: why the agent's process is gone; `stopped` says it in words where it was ended. `last` and
    `faults` are of the model calls that go on with the conversation: the last one's status, and the statuses of all
    that ended since the last good one. `swapped`: an answer came from another model or provider. `graded`: the grader's
    outcome ("" when nothing was graded), `said` its reason. `changed`: template files found changed. `breaches`:
    decisive findings, in a sentence each.
    """

    lost: bool = False
    trouble: str = ""
    reason: Reason = "exit"
    stopped: str = ""
    calls: int = 0
    good_calls: int = 0
    last: CallStatus | None = None
    faults: Sequence[CallStatus] = ()
    swapped: bool = False
    solution: bool = False
    wants_grade: bool = True
    graded: str = ""
    said: str = ""
    changed: Sequence[str] = ()
    breaches: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class How:
    """The decision; see `harness.record.run.RunRecord`."""

    outcome: Outcome
    ending: Ending
    retryable: bool
    detail: str


@dataclass(frozen=True, slots=True)
class _Row:
    evidence: str
    holds: Callable[[Evidence], bool]
    how: Callable[[Evidence], How]
    shown: tuple[str, str, str]  # outcome, ending, retryable, for the page


_PROVIDER: dict[str, tuple[Ending, str]] = {
    "credit": ("provider-credit", "the provider says that there is no credit left"),
    "auth": ("provider-auth", "the provider does not take the key"),
    "rate": ("provider-rate", "the provider limited the rate of calls"),
    "unavailable": ("provider-unavailable", "the provider could not be reached or failed"),
    "timeout": ("provider-unavailable", "the provider did not answer in time"),
    "cut": ("provider-cut", "the provider's answers broke off"),
    "empty": ("provider-cut", "the provider's answers were empty"),
    "too-large": ("provider-cut", "the provider's answers were larger than any model's can be"),
    "swapped": ("provider-swapped", "an answer came from another model or provider than was asked for"),
}


def _provider(found: Evidence) -> How:
    worst = found.last if found.last in _PROVIDER else found.faults[-1]
    ending, sentence = _PROVIDER[worst]
    times = f" ({len(found.faults)} calls in a row)" if len(found.faults) > 1 else ""
    return How("ERR", ending, ending != "provider-auth", sentence + times)


def _unscored(found: Evidence) -> How:
    """The agent's own end, with a result that has no score."""
    ending, retry = _own_end(found), False
    outcome: Outcome = "FAIL"
    if not found.solution:
        detail = "the agent wrote no solution.py"
    elif found.graded:
        detail = f"the grader says {found.graded}: {found.said}".rstrip(": ")
    else:
        outcome, retry, detail = "ERR" if found.wants_grade else "", found.wants_grade, "it was not graded"
    return How(outcome, ending, retry, "; ".join(filter(None, (found.stopped, detail))))


def _own_end(found: Evidence) -> Ending:
    return {"budget": "budget", "limit": "limit"}.get(found.reason, "agent-stop")  # type: ignore[return-value]


def _at_fault(found: Evidence) -> bool:
    return found.last in _PROVIDER or (found.reason == "provider" and bool(found.faults))


_ROWS: tuple[_Row, ...] = (
    _Row(
        "the harness was cut (killed, power) while the agent worked",
        lambda e: e.lost,
        lambda e: How("ERR", "infrastructure", True, "the run was cut while the agent worked, and is lost"),
        ("ERR", "infrastructure", "yes"),
    ),
    _Row(
        "an answer named another model or provider than was pinned (proxy)",
        lambda e: e.swapped,
        lambda e: How("ERR", "provider-swapped", True, _PROVIDER["swapped"][1]),
        ("ERR", "provider-swapped", "yes"),
    ),
    _Row(
        "the room, the proxy or the grader failed for a reason of ours or of the machine",
        lambda e: bool(e.trouble) or e.reason == "stopped",
        lambda e: How("ERR", "infrastructure", True, e.trouble or e.stopped or "the harness failed"),
        ("ERR", "infrastructure", "yes"),
    ),
    _Row(
        "text that only the judge or another run holds reached the model (decisive findings)",
        lambda e: bool(e.breaches),
        lambda e: How("FAIL", "breach-attempt", False, e.breaches[0]),
        ("FAIL", "breach-attempt", "no"),
    ),
    _Row(
        "a file that was given has another content at the end, or had at some time",
        lambda e: bool(e.changed),
        lambda e: How("FAIL", "template-tampering", False, f"these files were changed: {', '.join(e.changed[:8])}"),
        ("FAIL", "template-tampering", "no"),
    ),
    _Row(
        "the grader gave a score (`accepted`; without --strict also `flagged`), however the session ended",
        lambda e: e.graded in SCORED,
        lambda e: How("PASS", _provider(e).ending if _at_fault(e) else _own_end(e), False, _cut_short(e)),
        ("PASS", "agent-stop, budget, limit, or the provider's", "no"),
    ),
    _Row(
        "the last call of the conversation failed at the provider, and there is no score",
        _at_fault,
        _provider,
        ("ERR", "provider-credit, -auth, -rate, -unavailable, -cut, -swapped", "yes, but for -auth"),
    ),
    _Row(
        "a signal that the harness did not send killed the agent's process (lack of memory, a hand); no score",
        lambda e: e.reason == "killed",
        lambda e: How("ERR", "infrastructure", True, e.stopped),
        ("ERR", "infrastructure", "yes"),
    ),
    _Row(
        "the agent ended by itself without a single answer of a model",
        lambda e: e.reason == "exit" and e.good_calls == 0 and e.calls == 0 and not e.solution,
        lambda e: How("ERR", "infrastructure", True, "the agent ended without asking a model for anything"),
        ("ERR", "infrastructure", "yes"),
    ),
    _Row(
        "none of these: the agent stopped, its budget ran out, or a cap ended it",
        lambda e: True,
        _unscored,
        ("FAIL", "agent-stop, budget, limit", "no"),
    ),
)


def _cut_short(found: Evidence) -> str:
    if found.reason == "killed":
        return f"{found.stopped}; the score counts all the same"
    return "a provider's fault ended the session early; the score counts all the same" if _at_fault(found) else ""


def decide(found: Evidence) -> How:
    """How the run ended: the first row of the table whose evidence is there."""
    return next(row for row in _ROWS if row.holds(found)).how(found)


def table() -> str:
    """The table of endings as Markdown."""
    lines = ["| Evidence | Outcome | Ending | Retryable |", "|---|---|---|---|"]
    lines += [f"| {row.evidence} | {' | '.join(row.shown)} |" for row in _ROWS]
    return "\n".join(lines) + "\n"
