"""Holds a run or a bundle against itself, where it lies on the disk."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator
from pathlib import Path

from grader.record.bundle import Bundle, BundleError, CodecError, cell_from_json
from grader.record.bundle import verify as verify_bundle
from grader.record.bundle.read import names_in, shown
from harness.archive import source
from harness.archive.layout import FILES, Kind, StoreError
from harness.record.archive import RECORD, ArchiveError, RunFolder
from harness.record.run import RunRecord
from harness.record.usage import Usage, total

__all__ = ["faults_of"]

FAULTS = 100
MOST_CELLS = 1000


def faults_of(folder: Path, kind: Kind) -> list[str]:
    """Checks a finished run or bundle against itself; returns every fault as one sentence, at most FAULTS."""
    found: list[str] = []
    try:
        for fault in _bundle(folder) if kind == "bundle" else _run(folder):
            found.append(fault)
            if len(found) == FAULTS:
                break
    except (StoreError, ArchiveError, BundleError) as error:
        found.append(str(error))
    except OSError as error:
        found.append(f"{error.filename or folder} cannot be read: {error.strerror}")
    return found


def _bundle(folder: Path) -> Iterator[str]:
    source.files_of(folder, "bundle")
    faults = verify_bundle(folder)
    yield from faults
    if not faults and not Bundle.open(folder).finished:
        yield "the grading is not finished; the same `kbh grade` command goes on with it"


def _run(folder: Path) -> Iterator[str]:
    source.files_of(folder, "run")
    run = RunFolder(folder)
    record = run.load()
    if record.state != "done":
        yield f"it is not over ({record.state}); the next `kbh run` with the same --out sees to it"
        return
    for _ in run.events():
        pass
    used = total(call.usage for call in run.calls())
    if record.usage != Usage() and not _same_usage(record.usage, used):
        yield "what it says to have used is not the sum of its calls"
    yield from _solution(folder, record)
    for prefix in _names(folder, RECORD, "objects"):
        for name in _names(folder, RECORD, "objects", prefix):
            run.get(name)
    yield from _cells(folder, record)


def _same_usage(said: Usage, used: Usage) -> bool:
    costs = (said.cost_usd, used.cost_usd)
    if (costs[0] is None) != (costs[1] is None):
        return False
    same = said.prompt_tokens == used.prompt_tokens and said.output_tokens == used.output_tokens
    return same and math.isclose(costs[0] or 0.0, costs[1] or 0.0, rel_tol=1e-9, abs_tol=1e-12)


def _solution(folder: Path, record: RunRecord) -> Iterator[str]:
    if not record.solution:
        return
    if hashlib.sha256(source.read(folder, "solution.py")).hexdigest() != record.solution:
        yield "solution.py is not the one whose hash its record names"


def _cells(folder: Path, record: RunRecord) -> Iterator[str]:
    """Faults of its gradings; the one that its record names must say what the record says."""
    names = _names(folder, RECORD, "cells")
    for name in names:
        below = folder / RECORD / "cells" / name
        yield from (f"{RECORD}/cells/{shown(name)}: {fault}" for fault in verify_bundle(below))
    if not record.cell:
        if record.roofline_fraction is not None:
            yield "it says that the grader gave it a score, and holds no grading"
        return
    if record.cell not in names:
        yield f"the grading {shown(record.cell)} that its record names is missing"
        return
    entries = Bundle.open(folder / RECORD / "cells" / record.cell).entries()
    cells = [entry for entry in entries if entry.kind == "cell"]
    try:
        cell = cell_from_json(cells[-1].data) if cells else None
    except CodecError as error:
        yield f"the grading {shown(record.cell)} holds no cell: {error}"
        return
    score = cell.scores.roofline_fraction if cell is not None and cell.scores is not None else None
    said = (cell.outcome, cell.verdict.verdict, cell.problem) if cell is not None else None
    if said != (record.grade_outcome, record.verdict, record.problem) or score != record.roofline_fraction:
        yield f"its record says another result than its grading {shown(record.cell)}"
    elif cell is not None and cell.submission != record.solution:
        yield "its grading is of another solution than its record names"


def _names(folder: Path, *parts: str) -> list[str]:
    if not os.path.lexists(folder.joinpath(*parts)):
        return []
    return sorted(names_in(folder, FILES if parts[-1] != "cells" else MOST_CELLS, *parts))
