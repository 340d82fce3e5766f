"""Facts, findings and reports: the data that flows from analyses to rules to reporters."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from kbh_lint.base.fact_kind import FactKind, kind_name
from kbh_lint.base.records import dataclass
from kbh_lint.source.spans import Span

Verdict = Literal["clean", "rubric_leak", "reward_hack", "interesting", "bug", "unproven"]
State = Literal["kept", "kept-by-precision", "emulated", "broken", "unproven"]


# By doer (kernels, library, torch): its share of the problem's operations, where counted, and of the bytes moved.
Shares = dict[str, tuple[float | None, float]]
NOTHING_FOLLOWED = "nothing was followed"  # why a file without a contract is unproven


@dataclass(frozen=True, slots=True)
class Related:
    """A second place that belongs to a finding, and why."""

    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class Fact:
    """Something an analysis proved about a submission. Rules are queries over these.

    `kind` names the question (`kbh_lint.base.facts` has a class for each); `attrs` are plain strings,
    numbers, booleans or tuples of strings. `shapes` are the labels of the graded shapes on which it holds
    (empty: not tied to shapes), `total` how many shapes were traced; `span` is where it is seen best.
    """

    kind: str
    attrs: dict[str, Any]
    span: Span | None
    related: tuple[Related, ...] = ()
    shapes: tuple[str, ...] = ()
    total: int = 0


def fact_of(
    fact: FactKind, span: Span | None, related: tuple[Related, ...] = (), shapes: tuple[str, ...] = (), total: int = 0
) -> Fact:
    """Makes the fact that rules see of a typed one."""
    return Fact(kind_name(type(fact)), fact.attrs(), span, related, shapes, total)


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that matched."""

    rule: str
    name: str
    leak_class: str
    verdict: Verdict
    severity: Literal["error", "warning", "info"]
    confidence: Literal["high", "medium", "low"]
    layer: Literal["source", "ptx", "sass", "run"]
    message: str
    span: Span
    related: tuple[Related, ...] = ()
    shapes: tuple[str, ...] = ()
    breaks: str | None = None


@dataclass(frozen=True, slots=True)
class PromiseState:
    """What is known about one promise of the problem. `evidence` are places with a sentence each.

    `shapes` gives the state on each graded shape by its label and `state` what they come to under the promise's
    `quantifier` (`kbh_lint.verdict.combine` computes it); `accepts` are the states that --strict takes for kept.
    """

    id: str
    state: State
    shapes: dict[str, State] = field(default_factory=dict)
    evidence: tuple[Related, ...] = ()
    reason: str = ""
    quantifier: Literal["every", "some"] = "every"
    kind: str = ""
    accepts: tuple[State, ...] = ("kept", "kept-by-precision")


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be read, and why; a file that has one on its way to the result is unproven."""

    reason: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Analysis:
    """All that the engine says about one submission; rules and the verdict are computed from it.

    `contract` names the matched contract (None: only problem-independent rules speak); `trace` has one line a
    launch or library call, and is None unless it was asked for; `shares` says who
    does what, by the label of a graded shape. `doubtful` facts hold only where a branch that the code alone does not
    decide goes one way.
    """

    facts: tuple[Fact, ...] = ()
    promises: tuple[PromiseState, ...] = ()
    unread: tuple[Unread, ...] = ()
    contract: str | None = None
    notes: tuple[str, ...] = ()
    trace: tuple[str, ...] | None = None
    shares: dict[str, Shares] = field(default_factory=dict)
    doubtful: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class FileReport:
    """The verdict on one submission with all that supports it."""

    path: str
    problem: str | None
    contract: str | None
    target: str | None
    verdict: Verdict
    promises: tuple[PromiseState, ...] = ()
    findings: tuple[Finding, ...] = ()
    unread: tuple[Unread, ...] = ()
    notes: tuple[str, ...] = ()
    trace: tuple[str, ...] | None = None
    problem_source: str = ""
    shares: dict[str, Shares] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """All files of one run, in the order of their paths."""

    files: tuple[FileReport, ...]
    errors: tuple[str, ...] = ()
