"""From promise states, findings and what could not be read to one verdict: the table of docs/rules/verdict.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from kbh_lint.base.records import dataclass
from kbh_lint.findings import FileReport, Finding, PromiseState, State, Unread, Verdict

KEPT: frozenset[State] = frozenset({"kept", "kept-by-precision", "emulated"})
FLAGGED: frozenset[Verdict] = frozenset({"rubric_leak", "reward_hack", "bug"})
LEAKS: frozenset[Verdict] = frozenset({"rubric_leak", "reward_hack"})


@dataclass(frozen=True, slots=True)
class _Case:
    """What the rows of the table look at."""

    promises: tuple[PromiseState, ...]
    verdicts: frozenset[Verdict]
    unread: bool


@dataclass(frozen=True, slots=True)
class _Row:
    verdict: Verdict
    text: str
    applies: Callable[[_Case], bool]


def _any_state(case: _Case, state: State) -> bool:
    return any(promise.state == state for promise in case.promises)


def _kept_on_some(promise: PromiseState) -> bool:
    """A `some` promise that is kept, though not on every shape."""
    kept = promise.state in KEPT and promise.quantifier == "some"
    return kept and any(state not in KEPT for state in promise.shapes.values())


# The first row that applies decides.
_TABLE = (
    _Row(
        "reward_hack",
        "a finding says so: the number comes from fooling the grader or from work that was not done",
        lambda case: "reward_hack" in case.verdicts,
    ),
    _Row(
        "rubric_leak",
        "a finding says so; of a broken promise that no other rule explains, KBH121 does",
        lambda case: "rubric_leak" in case.verdicts,
    ),
    _Row("bug", "a finding says so: the code does not do what it was meant to", lambda case: "bug" in case.verdicts),
    _Row(
        "unproven",
        "something on the way to the result could not be read, a promise could be neither shown kept nor broken, or "
        "nothing was followed because no contract is known; or a promise is broken and none of the rules given "
        "(a folder of one's own) says where",
        lambda case: (
            case.unread or "unproven" in case.verdicts or _any_state(case, "unproven") or _any_state(case, "broken")
        ),
    ),
    _Row(
        "interesting",
        "a finding says so, or a promise is kept by emulated precision, or a `some` promise only on some shapes",
        lambda case: (
            "interesting" in case.verdicts or _any_state(case, "emulated") or any(map(_kept_on_some, case.promises))
        ),
    ),
    _Row("clean", "nothing of the above: every promise is kept, or kept by higher precision", lambda case: True),
)


def weakened(
    promises: tuple[PromiseState, ...], findings: Iterable[Finding], doubtful: Iterable[Finding]
) -> tuple[PromiseState, ...]:
    """The promises with those no longer kept that a `doubtful` finding would break: one that holds only if a branch
    goes one way, which the code alone does not decide. A leak that names no promise weakens all of them."""
    told = {finding.rule for finding in findings}
    leaks = [f for f in doubtful if f.verdict in LEAKS and f.severity != "info" and f.rule not in told]
    out = []
    for promise in promises:
        leak = next((f for f in leaks if f.breaks in (None, promise.id, promise.kind)), None)
        if leak is None or promise.state not in KEPT:
            out.append(promise)
            continue
        shapes: dict[str, State] = {
            label: "unproven" if label in leak.shapes and state in KEPT else state
            for label, state in promise.shapes.items()
        }
        reason = f"on a branch that the code alone does not decide, {leak.message}"
        out.append(replace(promise, state="unproven", shapes=shapes, reason=reason))
    return tuple(out)


def decide(
    promises: Iterable[PromiseState], findings: Iterable[Finding], unread: Iterable[Unread], contract_known: bool
) -> Verdict:
    """The verdict on one file: the first row of the table that applies.

    Findings of severity info never count. Without a contract no promise is made, so promise states are left out, and
    what no problem-independent rule speaks of is `unproven`: nobody followed it.
    """
    case = _Case(
        promises=tuple(promises) if contract_known else (),
        verdicts=frozenset(finding.verdict for finding in findings if finding.severity != "info"),
        unread=not contract_known or any(True for _ in unread),
    )
    return next(row.verdict for row in _TABLE if row.applies(case))


def explained(findings: Iterable[Finding]) -> bool:
    """Whether some finding already makes the file a leak or worse, so that a broken promise needs no line of its
    own."""
    return any(finding.verdict in LEAKS and finding.severity != "info" for finding in findings)


def combine(shapes: Mapping[str, State], quantifier: Literal["every", "some"]) -> State:
    """One state from the states on all graded shapes; `unproven` when there are none.

    `every`: the worst of broken, unproven, emulated, kept-by-precision, kept. `some`: the best on any shape; when
    none is kept, unproven if any shape is, else broken."""
    order: Sequence[State] = ("broken", "unproven", "emulated", "kept-by-precision", "kept")
    if quantifier == "some":
        order = ("kept", "kept-by-precision", "emulated", "unproven", "broken")
    states = set(shapes.values())
    return next((state for state in order if state in states), "unproven")


def accepted(report: FileReport) -> tuple[bool, str]:
    """Whether --strict accepts the score, and if not, why: it needs a contract, every promise kept, and no ban hit."""
    if report.verdict in FLAGGED:
        return False, f"the verdict is {report.verdict}"
    if report.contract is None:
        return False, "no contract matched, so no promise could be checked"
    if report.verdict == "unproven":
        return False, f"the verdict is {report.verdict}"
    for promise in report.promises:
        if promise.state not in promise.accepts:
            return False, f"the promise {promise.id} is {promise.state}"
    return True, ""


def table() -> str:
    """The table of verdicts as Markdown, for the documentation."""
    lines = ["| | Verdict | When |", "|---|---|---|"]
    lines += [f"| {number} | `{row.verdict}` | {row.text} |" for number, row in enumerate(_TABLE, 1)]
    return "\n".join(lines) + "\n"
