"""Runs that were cut: those whose agent had ended are graded now, the others are said to be lost.

A run that is at work holds the lock of its archive, so a free lock and an unfinished record mean that its process is
gone. A lost run is an ERR of the infrastructure, never the agent's failure; it can be made again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness.record.archive import ArchiveError, RunFolder, is_run
from harness.record.events import RunEnded
from harness.record.run import RunRecord
from harness.running.ending import Evidence, decide
from harness.running.request import RunRequest

__all__ = ["cut_runs", "said_lost", "same_request"]

MOST_RUNS = 100_000


def cut_runs(out: Path) -> Iterator[tuple[RunFolder, RunRecord]]:
    """The runs below a folder that were cut, each with its lock taken. An archive that cannot be read is left out."""
    for path in sorted(out.iterdir())[:MOST_RUNS] if out.is_dir() else ():
        if not is_run(path):
            continue
        folder = RunFolder(path)
        try:
            if folder.load().state == "done" or not folder.take():
                continue
            record = folder.load()  # as whoever had the lock left it
        except (ArchiveError, OSError):
            folder.release()
            continue
        if record.state == "done":
            folder.release()
            continue
        yield folder, record


def said_lost(folder: RunFolder, record: RunRecord) -> RunRecord:
    """Records that a run was cut while its agent worked, or before."""
    how = decide(Evidence(lost=True))
    ended = replace(
        record, state="done", outcome=how.outcome, ending=how.ending, retryable=how.retryable, detail=how.detail,
        ended=time.time(),
    )  # fmt: skip
    last = max((event.elapsed for event in folder.events()), default=0.0)
    folder.append(RunEnded(how.outcome, how.ending, how.retryable, how.detail), step=0, seen="run", elapsed=last)
    folder.save(ended)
    folder.release()
    return ended


def same_request(record: RunRecord, request: RunRequest) -> bool:
    """Whether a run is a trial of this very request, so that its grading counts for it."""
    asked = (request.agent, request.model, request.problem, request.effort, request.budget_s, request.strict)
    made = (record.agent, record.model, record.problem, record.effort, record.budget_s, record.strict)
    return asked == made
