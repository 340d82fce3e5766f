"""One submission of a test, linted."""

from __future__ import annotations

from pathlib import Path

from kbh_lint import lint
from kbh_lint.findings import FileReport

__all__ = ["report_of"]


def report_of(folder: Path, text: str, problem: str | None = None) -> FileReport:
    """The report of a submission of this text, written into a folder; an error of the linter's own is raised. It may
    take as long as it does: a busy machine ends no test."""
    path = folder / "solution.py"
    path.write_text(text, encoding="utf-8")
    (report,) = lint([path], problem=problem, raise_errors=True, timeout=0).files
    return report
