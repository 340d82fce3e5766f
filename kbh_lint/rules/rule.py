"""What a rule is."""

from __future__ import annotations

import re

from kbh_lint.base.records import dataclass
from kbh_lint.findings import Verdict
from kbh_lint.marked import DataError
from kbh_lint.rules.query import Query

PLACEHOLDER = re.compile(r"\{(\w+)\}")  # what a message fills in, from the fact
KERNELBENCH_CHECKS = (
    "code_bypass", "pytorch_wrap", "torch_computation_ops", "timing_event_patch", "stream_injection",
    "thread_injection", "lazy_eval", "precision_downgrade",
)  # fmt: skip


class RuleError(DataError):
    """A rule file that cannot be used; its text is one sentence with the file and the line."""


@dataclass(frozen=True, slots=True)
class Example:
    """Code that a rule must flag (bad) or pass (good). `of` names the bad example that a good one is the twin of."""

    name: str
    code: str
    line: int
    problem: str | None = None
    note: str = ""
    of: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `when` holds alternatives: a fact that any of them matches becomes a finding.

    `scope` says when it speaks: always (`any`), under a contract that makes the promise which it `breaks` (`promise`),
    or as `promise` and only where no other rule found a leak (`fallback`). `layer` is the kind of evidence it is about.
    `kernelbench` names the checks of KernelBench (`KERNELBENCH_CHECKS`) that are about the same.
    """

    id: str
    name: str
    leak_class: str
    verdict: Verdict
    severity: str
    confidence: str
    layer: str
    scope: str
    breaks: str | None
    kernelbench: tuple[str, ...]
    summary: str
    why: str
    remedy: str
    references: tuple[str, ...]
    when: tuple[Query, ...]
    message: str
    bad: tuple[Example, ...]
    good: tuple[Example, ...]
    path: str
