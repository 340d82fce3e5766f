"""A grading from a file to a cell. `grader.grading.course` has its steps.

Importing torch takes seconds, here and in the process of the submission. So nothing of this module needs it, and that
process is started first (`grader.grading.first`).
"""

from __future__ import annotations

import io
from pathlib import Path

from grader.grading.first import First
from grader.grading.progress import Progress, Tell
from grader.grading.request import Request
from grader.grading.scratch import scratch_folder
from grader.judge.turns import grading
from grader.record.cell import Cell

__all__ = ["Progress", "Request", "grade"]

MOST_NAMING = 1 << 20  # bytes of a submission


def grade(request: Request, progress: Tell = lambda _: None) -> tuple[Cell, Path]:
    """Grades one submission. Returns the cell and the folder of its bundle.

    Raises an exception of one sentence where we, the machine or the request are to blame: GradeError, TargetError,
    SandboxError, CheckError, DeckError, BundleError, or kbh_lint's DataError and UsageError. What is wrong with the
    submission never raises: it is in the cell.
    """
    with grading(), scratch_folder(of=_text(request.submission)) as scratch, First(request, scratch) as first:
        from grader.grading.course import graded  # here, for it imports torch: the submission's process does meanwhile

        return graded(request, scratch, progress, first)


def _text(file: Path) -> bytes:
    """What the scratch folder is named after; that a file cannot be read is told where it is copied."""
    try:
        with file.open("rb") if file.is_file() else io.BytesIO() as opened:
            return opened.read(MOST_NAMING)
    except OSError:
        return b""
