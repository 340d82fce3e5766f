"""Grades solutions of an archive here, strictly and in a sandbox; the only step of an audit that runs any of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from grader.cli.grade import ERRORS
from grader.grading.grade import Request, grade
from grader.grading.request import SandboxName
from grader.record.sandboxes import REMEDIES
from grader.record.words import short
from grader.sandbox import choose
from grader.score.targets import pick_device
from harness.audit.cells import Grade
from harness.audit.gathering import Run
from harness.audit.reading import AuditError
from kbh_lint.report.text import one_line

__all__ = ["grade_runs"]


def grade_runs(
    runs: Sequence[Run],
    *,
    target: str,
    problems_dir: Path | None,
    ids: Sequence[str],
    progress: Callable[[int, int], None],
) -> dict[str, Grade]:
    """Grades each run's solution; returns the results by the runs' names. Bundles hold solutions, so none is kept.

    Raises AuditError where there is no sandbox: what others published is never run without one.
    """
    record = choose(device=pick_device(target, None)).record
    if not record.traits.closed:
        raise AuditError(f"--grade needs a sandbox, and there is none here: {REMEDIES}")
    made: dict[str, Grade] = {}
    able = [run for run in runs if run.text is not None and run.problem in ids]
    for number, run in enumerate(able):
        progress(number, len(able))
        made[run.entry.run] = _grade(run, target, problems_dir, record.kind)
    progress(len(able), len(able))
    return made


def _grade(run: Run, target: str, problems_dir: Path | None, sandbox: SandboxName) -> Grade:
    with tempfile.TemporaryDirectory(prefix="kbh-audit-") as folder:
        submission = Path(folder, f"{run.problem}.py")
        submission.write_text(run.text or "", encoding="utf-8")
        try:
            cell, _ = grade(Request(
                submission, run.problem, target=target, strict=True, sandbox=sandbox, out=Path(folder, "out"),
                problems_dir=problems_dir,
            ))  # fmt: skip
        except Exception as error:
            if type(error).__name__ not in ERRORS and not isinstance(error, OSError):
                raise
            return Grade("not graded", one_line(str(error).replace(folder, ""))[:400])
    return Grade(cell.outcome, one_line(short(cell))[:400], cell.target.id, cell.target.label)
