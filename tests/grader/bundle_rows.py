"""A whole grading of two trials as the rows of a bundle, written by the store or forged by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grader.record.bundle import Bundle, cell_to_json, trial_to_json
from grader.record.bundle.read import entry_bytes
from grader.record.cell import (
    CaseOutcome,
    Cell,
    SandboxRecord,
    Scores,
    SealedBatch,
    ShapeResult,
    ShapeScore,
    ShapeTiming,
    TargetRecord,
    TrialResult,
    VerdictRecord,
)

CODE, LOG, REPORT = b"class Model: ...\n", b"it said something\n", b'{"version": 1}\n'
MASTERS = ("11" * 32, "22" * 32)
Row = tuple[str, dict[str, Any], tuple[str, ...]]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def commitment(master: str) -> str:
    return sha256(bytes.fromhex(master))


def trial(index: int) -> TrialResult:
    case = CaseOutcome("large", True, 1e-6, 1e-4)
    batch = SealedBatch(2, 8.0 + 2 * index, 1.0)
    timing = ShapeTiming((1.0 + index, 2.0 + 2 * index, 5.0), (3.0, 4.0, 7.0), (batch,), 0.5)
    shape = ShapeResult("M=8", "right", "", 1, 1, (case,), timing)
    held = SandboxRecord("plain", 0, False)
    key = MASTERS[index]
    return TrialResult(index, commitment(key), key, "right", "", (shape,), held, 1.5, log=sha256(LOG))


def cell() -> Cell:
    verdict = VerdictRecord("clean", True, "every promise is kept", (), (), "deck", "1", sha256(REPORT))
    target = TargetRecord("cpu", "a CPU", "cpu", "measured", 1.0, 2.0, "reduced")
    shape = ShapeScore("M=8", 4.0, 3.0, 4.0, 2.0, 0.5, "proved", 0, 6, 0.0, 0.25, 0.5, 0.625)
    return Cell(
        "toy", sha256(CODE), "solution.py", target, True, "2026-11", "accepted", "", verdict, (trial(0), trial(1)),
        (shape,), Scores(0.25, 0.5, 0.625),
    )  # fmt: skip


def rows() -> list[Row]:
    """A whole grading of two trials, the second of which was cut once."""
    return [
        ("open", {"submission": {"sha256": sha256(CODE), "files": {"solution.py": sha256(CODE)}}}, (sha256(CODE),)),
        ("lint", {"report": sha256(REPORT)}, (sha256(REPORT),)),
        ("commitment", {"trial": 0, "commitment": commitment(MASTERS[0])}, ()),
        ("trial", trial_to_json(trial(0)), (sha256(LOG),)),
        ("commitment", {"trial": 1, "commitment": "ab" * 32}, ()),
        ("abandoned", {"trial": 1, "commitment": "ab" * 32}, ()),
        ("commitment", {"trial": 1, "commitment": commitment(MASTERS[1])}, ()),
        ("trial", trial_to_json(trial(1)), (sha256(LOG),)),
        ("evidence", {"trial": 1, "differences": []}, ()),
        ("cell", cell_to_json(cell()), ()),
        ("regrade", {"outcome": "same"}, ()),
    ]


def write(folder: Path, written: Sequence[Row]) -> Path:
    """A bundle by the store itself."""
    (_, header, _), *others = written
    with Bundle.create(folder, header, [CODE]) as bundle:
        for data in (LOG, REPORT):
            bundle.put(data)
        for kind, data, objects in others:
            bundle.append(kind, data, objects)
    return folder


def forge(folder: Path, written: Sequence[Row]) -> Path:
    """A bundle by hand, with right hashes throughout, whatever its entries say."""
    for name in ("objects", "entries", "tmp"):
        (folder / name).mkdir(parents=True)
    for data in (CODE, LOG, REPORT):
        place = folder / "objects" / sha256(data)[:2] / sha256(data)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data)
    head = ""
    for seq, (kind, data, objects) in enumerate(written, 1):
        entry = entry_bytes(seq, head, kind, "2026-11-21T08:00:00Z", data, objects)
        (folder / "entries" / f"{seq:06d}.json").write_bytes(entry)
        head = sha256(entry)
    return folder
