"""Correctness of one submission: every case of the problem, each with inputs of its own, run in a process of its own.

It is a trial of `grader.judge.judging` without clocks. The judge holds keys, plan, oracle and bounds.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from grader.judge.judging import default_options, run_trial
from grader.judge.plan import BUILD_SECONDS
from grader.record.cell import TrialResult
from grader.sandbox import Sandbox, choose
from grader.sandbox.base import CheckError
from grader.sandbox.folders import remove
from grader.sandbox.snapshot import snapshot
from kbh_lint.problems import Problem

__all__ = ["CaseResult", "CheckError", "CheckReport", "check_submission", "report_of"]

Outcome = Literal["passed", "failed", "not-checkable"]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case of one shape. `error` is the smallest tolerance that would have passed; null where none was measured."""

    shape: str
    case: str
    ok: bool
    error: float | None
    tolerance: float | None
    message: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The outcome for a submission. `message` is one sentence; `detail` what the submission said of its own failure.

    `commitment` is the SHA-256 of the key that every value was drawn from.
    """

    problem: str
    solution: str
    sha256: str
    device: str
    scale: str
    outcome: Outcome
    message: str
    detail: str
    cases: tuple[CaseResult, ...]
    commitment: str
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """JSON-able; an infinite error is the string "inf"."""
        data = asdict(self)
        for case in data["cases"]:
            for name in ("error", "tolerance"):
                if case[name] is not None and not math.isfinite(case[name]):
                    case[name] = "inf"
        return data


def check_submission(
    problem: Problem,
    solution: Path,
    *,
    device: str = "cpu",
    scale: Literal["full", "reduced"] = "reduced",
    master: bytes,
    timeout: float = 600.0,
    build_timeout: float = BUILD_SECONDS,
    all_cases: bool = False,
    progress: Callable[[str], None] | None = None,
    workspace: Path | None = None,
    sandbox: Sandbox | None = None,
) -> CheckReport:
    """Runs every case of every shape. `timeout` bounds the seconds that the submission's calls take in all,
    `build_timeout` those of building it: the import, its models and the first call of each. The first wrong result ends
    it, unless `all_cases` are wanted.

    `workspace` is a folder that keeps the compiler caches for a later process of the same submission; without it they
    are deleted. Without a `sandbox` the process has limits and is cleaned up after, and no more: check your own code
    so. Raises CheckError when the check cannot be made, and DeckError for a fault of the problem's own code.
    """
    began, options = time.monotonic(), default_options(device, timeout=timeout, build_timeout=build_timeout)
    scratch = Path(tempfile.mkdtemp(prefix="kbh-check-")) if workspace is None else workspace
    try:
        reference = Path(problem.path).resolve().parent / "reference.py"
        taken = snapshot(solution, scratch / "submission", reference=reference)
        trial = run_trial(
            problem, taken, index=0, device=device, scale=scale, master=master,
            options=replace(options, timing=False, all_cases=all_cases),
            sandbox=sandbox or choose(device=device, wanted="plain"), scratch=scratch, caches=None,
            keep_log=lambda text: "", progress=progress or (lambda text: None),
        )  # fmt: skip
    finally:
        if workspace is None:
            remove(scratch)
    shown = f"{solution.parent.name}/{solution.name}"
    return report_of(
        problem, trial, solution=shown, sha256=taken.sha256, device=device, scale=scale,
        seconds=round(time.monotonic() - began, 3),
    )  # fmt: skip


def report_of(
    problem: Problem, trial: TrialResult, *, solution: str, sha256: str, device: str, scale: str, seconds: float
) -> CheckReport:
    """The CheckReport of a trial; `solution` is the name under which the submission is shown."""
    cases = tuple(
        CaseResult(shape.shape, case.case, case.ok, case.error, case.tolerance, case.message)
        for shape in trial.shapes
        for case in shape.cases
    )
    outcome, message = _outcome(trial, cases)
    return CheckReport(
        problem.id, solution, sha256, device, scale, outcome, message, trial.detail, cases, trial.commitment, seconds
    )


def _outcome(trial: TrialResult, cases: tuple[CaseResult, ...]) -> tuple[Outcome, str]:
    bad = [case for case in cases if not case.ok]
    if trial.status == "right":
        return "passed", f"all {len(cases)} cases are right"
    if trial.status == "refused" and not bad:
        return "not-checkable", trial.message
    more = f" ({len(bad)} cases failed)" if len(bad) > 1 else ""
    return "failed", (bad[0].message if trial.status == "refused" else trial.message) + more
