"""One verdict from all layers that looked, and one outcome from verdict, results and clocks.

Layers: `source` is the linter's reading; `run` is the evidence pass, a replay of hidden inputs that a timed pass saw;
`sass` and `counters` are machine code and what profilers counted, where the machine has them.
docs/grading.md prints the table of outcomes from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from grader.record.cell import FindingRecord, Outcome, PromiseRecord, SandboxRecord, TrialResult, VerdictRecord
from kbh_lint.findings import FileReport, Finding, PromiseState, State, Unread
from kbh_lint.problems import Problem, Promise
from kbh_lint.source.spans import Span
from kbh_lint.verdict import accepted, decide, explained

if TYPE_CHECKING:
    from grader.silicon import Silicon

__all__ = ["MISMATCH", "OFFERED", "OUTCOMES", "OutcomeRow", "Standing", "outcome_of", "table", "verdict_of"]

OFFERED: Mapping[str, tuple[str, ...]] = {"cpu": ("source", "run"), "cuda": ("source", "run")}
MISMATCH = "evidence-mismatch"
BROKEN = "broken-promise"
_WORST: Sequence[State] = ("broken", "unproven", "emulated", "kept-by-precision", "kept")


# --- the verdict -------------------------------------------------------------------------------------------


def verdict_of(
    report: FileReport,
    problem: Problem,
    *,
    device: str,
    linter: str,
    target: str = "",
    replay: Sequence[str] | None,
    lost: str = "",
    silicon: Silicon | None = None,
    report_hash: str = "",
    provenance: Sequence[FindingRecord] = (),
) -> VerdictRecord:
    """The verdict of all layers.

    `replay` holds what differed in the evidence pass, one sentence each; none means that it agreed, None that there was
    no evidence pass, or that it was `lost`, which says why. A run that agrees says what the source says: what was read
    is what was timed. `silicon` is what profilers saw; where it says nothing of a promise, that changes nothing. The
    worst state of all layers counts. A state that the problem takes on `target` at the shapes that have it counts as
    fulfilled. A layer that a promise declares and nobody had is listed as missing; where the
    target offers it, strict does not accept then. `provenance` are findings of the run that made the submission: those
    that say `reward_hack` count, the others are only told.
    """
    mismatches = tuple(_mismatch(sentence) for sentence in replay or ())
    run: State | None = "broken" if mismatches else "unproven" if lost else None
    seen = silicon.layers if silicon is not None else {}
    had = ("source", *(("run",) if replay is not None or lost else ()), *seen)
    reasons = silicon.reasons if silicon is not None else {}
    declared_by = {promise.id: promise for promise in problem.promises_for(report.contract or "")}
    records, states = [], []
    for state in report.promises:
        promise = declared_by.get(state.id)
        declared = promise.settled_by if promise is not None else ("source",)
        layers: dict[str, State] = {"source": state.state}
        if "run" in had and "run" in declared:
            layers["run"] = run or state.state
        layers |= {layer: found[state.id] for layer, found in seen.items() if layer in declared and state.id in found}
        merged = min(layers.values(), key=_WORST.index)
        missing = tuple(layer for layer in declared if layer not in had)
        reason = state.reason
        if merged != state.state:
            reason = reasons.get(state.id) or lost or next((m.message for m in mismatches), "")
        shapes = _by_shape(state, silicon, declared)
        accepts = _accepts(state, promise, target, shapes)
        records.append(PromiseRecord(state.id, merged, accepts, layers, missing, reason))
        states.append(replace(state, state=merged, shapes=shapes, accepts=accepts, reason=reason))
    decisive = tuple(record for record in provenance if record.verdict == "reward_hack")
    found = (*decisive, *mismatches, *(silicon.findings if silicon is not None else ()))
    unread = (*report.unread, Unread(lost)) if lost else report.unread
    found += tuple(_broken(records, (*(_counted(record) for record in found), *report.findings)))
    counted = (*(_counted(record) for record in found), *report.findings)
    verdict = decide(states, counted, unread, report.contract is not None)
    whole = replace(report, promises=tuple(states), unread=unread, findings=counted, verdict=verdict)
    taken, why = _taken(whole, records, OFFERED[device])
    told = tuple(record for record in provenance if record not in decisive)
    listed = (_finding(finding, report) for finding in report.findings if finding.severity != "info")
    findings = (*found, *told, *listed)
    return VerdictRecord(verdict, taken, why, tuple(records), findings, report.contract, linter, report_hash)


def _by_shape(source: PromiseState, silicon: Silicon | None, declared: Sequence[str]) -> dict[str, State]:
    """The worst state of all layers that look at single shapes, at each of them."""
    shapes = dict(source.shapes)
    for layer, found in (silicon.shapes_by_layer if silicon is not None else {}).items():
        for label, state in (found.get(source.id, {}) if layer in declared else {}).items():
            shapes[label] = min(state, shapes.get(label, state), key=_WORST.index)
    return shapes


def _accepts(
    source: PromiseState, promise: Promise | None, target: str, shapes: Mapping[str, State]
) -> tuple[State, ...]:
    """The states that count as fulfilled: also one that this target is exempt for at every shape that has it."""
    accepts = source.accepts
    for exemption in promise.also if promise is not None else ():
        labels = [label for label, state in shapes.items() if state == exemption.state]
        if promise is not None and labels and all(exemption.state in promise.accepted_at(target, x) for x in labels):
            accepts = (*accepts, cast(State, exemption.state))
    return tuple(dict.fromkeys(accepts))


def _taken(report: FileReport, records: Sequence[PromiseRecord], offered: Sequence[str]) -> tuple[bool, str]:
    """Whether strict takes it, and if not, why in one sentence."""
    taken, why = accepted(report)
    if not taken:
        reasons = _reasons(report)
        return False, f"{why}: {reasons[0]}" if reasons and why.startswith("the verdict") else why + _where(report)
    for record in records:
        left_out = [layer for layer in record.missing if layer in offered]
        if left_out:
            return False, f"the promise {record.id} is settled by the layer {left_out[0]} too, which was left out"
    return True, ""


def _where(report: FileReport) -> str:
    """The shapes at which a promise has the state that is not taken."""
    refused = next((p for p in report.promises if p.state not in p.accepts), None)
    labels = [label for label, state in refused.shapes.items() if state == refused.state] if refused else []
    return f" at {', '.join(labels)}" if labels else ""


def _reasons(report: FileReport) -> list[str]:
    """What stands behind a verdict that is not clean, the strongest first."""
    counted = [f.message for f in report.findings if f.verdict == report.verdict and f.severity != "info"]
    broken = [f"the promise {p.id} is broken" for p in report.promises if p.state == "broken"]
    unread = [item.reason for item in report.unread]
    open_ = [_open(p) for p in report.promises if p.state == "unproven"]
    return [*counted, *broken, *unread, *open_]


def _open(promise: PromiseState) -> str:
    return f"the promise {promise.id} is unproven" + (f" ({promise.reason})" if promise.reason else "")


def _mismatch(sentence: str) -> FindingRecord:
    return FindingRecord("evidence", MISMATCH, "reward_hack", "run", f"evidence mismatch: {sentence}")


def _broken(promises: Sequence[PromiseRecord], findings: Sequence[Finding]) -> Iterator[FindingRecord]:
    """A finding for each promise that another layer shows broken, where none says yet that the submission leaks."""
    for promise in promises if not explained(findings) else ():
        layer = next((layer for layer, state in promise.layers.items() if state == "broken"), None)
        if layer is not None:
            message = f"the promise {promise.id} is broken" + (f": {promise.reason}" if promise.reason else "")
            yield FindingRecord(BROKEN, BROKEN, "rubric_leak", cast(Any, layer), message)


def _counted(record: FindingRecord) -> Finding:
    """A finding of a run as the verdict's table counts it."""
    return Finding(
        record.rule, record.leak_class, record.leak_class, record.verdict, "error", "high", "run", record.message,
        Span("solution.py", 1, 1, 1, 1),
    )  # fmt: skip


def _finding(finding: Finding, report: FileReport) -> FindingRecord:
    """A finding as the cell keeps it: lines are those of the submission's main file, other files are named."""
    here = finding.span.path == report.path
    message = finding.message if here else f"{finding.span.path}:{finding.span.line}: {finding.message}"
    return FindingRecord(
        finding.rule, finding.leak_class, finding.verdict, finding.layer, message, finding.span.line if here else 0
    )


# --- the outcome -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Standing:
    """All that decides the outcome. Texts are one sentence, empty where there is nothing to say.

    `refused`: why it could not be graded. `suspicion`: why its times cannot be believed. `ran`: False when strict
    stopped before anything was run.
    """

    strict: bool
    device: Literal["cuda", "cpu"]
    verdict: VerdictRecord
    refused: str = ""
    trials: Sequence[TrialResult] = ()
    suspicion: str = ""
    sandbox: SandboxRecord | None = None
    ran: bool = True


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """An outcome, its exit code, when it holds in words, and the reason where it does (None: it does not)."""

    outcome: Outcome
    exit_code: int
    when: str
    score: str
    reason: Callable[[Standing], str | None]


def _refused(standing: Standing) -> str | None:
    if standing.refused:
        return standing.refused
    return next((trial.message for trial in standing.trials if trial.status == "refused"), None)


def _wrong(standing: Standing) -> str | None:
    return next((trial.message for trial in standing.trials if trial.status == "wrong"), None)


def _withheld(standing: Standing) -> str | None:
    if not standing.strict:
        return None
    if not standing.verdict.accepted:
        return standing.verdict.why + ("" if standing.ran else "; nothing was run")
    sandbox = standing.sandbox
    if standing.device == "cuda" and (sandbox is None or not sandbox.traits.closed):
        return "it ran on a GPU without a sandbox, so its results may be forged"
    return None


def _flagged(standing: Standing) -> str | None:
    return None if standing.verdict.accepted else standing.verdict.why


# The first row that applies decides.
OUTCOMES: tuple[OutcomeRow, ...] = (
    OutcomeRow(
        "wrong", 1, "a trial ran it and a result was wrong, or a shape crashed or took too long",
        "none; the table of shapes stays", _wrong,
    ),
    OutcomeRow(
        "refused", 2, "it could not be graded: this machine cannot run it, or it could not be read",
        "none", _refused,
    ),
    OutcomeRow(
        "suspect", 1, "its times cannot be true: too many lie under what the hardware allows",
        "none, in every mode", lambda standing: standing.suspicion or None,
    ),
    OutcomeRow(
        "withheld", 1,
        "`--strict`, and a promise is not shown kept, a ban is hit, a layer of evidence was left out, or it ran on "
        "a GPU without a sandbox",
        "none", _withheld,
    ),
    OutcomeRow(
        "flagged", 1, "without `--strict`: as `withheld`, and the number is shown beside the verdict",
        "shown beside the verdict", _flagged,
    ),
    OutcomeRow(
        "accepted", 0, "every result is right and every promise is shown kept by the layers that this target offers",
        "shown", lambda _: "",
    ),
)  # fmt: skip


def outcome_of(standing: Standing) -> tuple[Outcome, str]:
    """The first row of OUTCOMES that applies, and its reason in one sentence (empty for accepted)."""
    for row in OUTCOMES:
        reason = row.reason(standing)
        if reason is not None:
            return row.outcome, reason
    raise AssertionError("the last row applies to everything")


def table() -> str:
    """OUTCOMES as a Markdown table, for the documentation."""
    lines = ["| Outcome | Exit code | When | Score |", "|---|---|---|---|"]
    lines += [f"| `{row.outcome}` | {row.exit_code} | {row.when} | {row.score} |" for row in OUTCOMES]
    return "\n".join(lines) + "\n"
