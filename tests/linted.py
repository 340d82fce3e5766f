"""One submission of a test, linted."""

from __future__ import annotations

from pathlib import Path

from kbh_lint import lint
from kbh_lint.findings import FileReport

__all__ = ["cases", "report_of"]


def report_of(folder: Path, text: str, problem: str | None = None) -> FileReport:
    """The report of a submission of this text, written into a folder; an error of the linter's own is raised. It may
    take as long as it does: a busy machine ends no test."""
    path = folder / "solution.py"
    path.write_text(text, encoding="utf-8")
    (report,) = lint([path], problem=problem, raise_errors=True, timeout=0).files
    return report


def cases(text: str) -> dict[str, str]:
    """Programs by their headings: `# a name`, and the lines until the next."""
    parts = (part.partition("\n") for part in text[2:].split("\n# "))
    return {name: body.rstrip("\n") for name, _, body in parts}
