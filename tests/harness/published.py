"""Releases for tests: runs with gradings of a GPU, and archives that were forged with care."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from kept import archive_of
from sample_run import record
from stored import h200

from grader.record.bundle import Bundle, cell_from_json
from grader.record.bundle.read import entry_bytes
from harness.archive import Archive
from harness.record.archive import RECORD, RunFolder
from harness.record.usage import Usage
from harness.release.contents import usual_options
from harness.release.entries import Verified
from harness.release.write import write_release

RESULTS = h200()
Change = Callable[[str, dict[str, Any]], None]


def graded_run(
    out: Path, number: int, submission: str, change: Change | None = None, beside: bytes = b"", **more: Any
) -> Path:
    """A run that ended with a bundle of the H200; `change` forges its entries, `beside` is a further object."""
    (source,) = RESULTS.glob(f"{submission}-*")
    name = f"r{number}"
    spare = out / f"{name}-cell"
    shutil.copytree(source, spare)
    if change is not None:
        forge(spare, change, beside)
    cell = cell_from_json([entry for entry in Bundle.open(spare).entries() if entry.kind == "cell"][-1].data)
    scores = cell.scores
    said: dict[str, Any] = {
        "run_id": name, "problem": cell.problem, "target": cell.target.id, "trial": number, "usage": Usage(),
        "solution": cell.submission, "outcome": "PASS" if scores else "FAIL", "grade_outcome": cell.outcome,
        "verdict": cell.verdict.verdict, "roofline_fraction": scores.roofline_fraction if scores else None,
        "peak_fraction": scores.peak_fraction if scores else None, "strict": cell.strict, "cell": "final",
    }  # fmt: skip
    run = RunFolder.create(out, record(**{**said, **more}))
    text = (spare / "objects" / cell.submission[:2] / cell.submission).read_bytes()
    run.write("solution.py", text)
    (run.path / RECORD / "cells").mkdir(parents=True, exist_ok=True)
    shutil.move(spare, run.path / RECORD / "cells" / "final")
    run.release()
    return run.path


def forge(bundle: Path, change: Change, beside: bytes = b"") -> None:
    """Changes entries of a bundle and makes the chain of hashes whole again."""
    place = bundle / "objects" / hashlib.sha256(beside).hexdigest()[:2]
    place.mkdir(exist_ok=True)
    (place / hashlib.sha256(beside).hexdigest()).write_bytes(beside)
    prev = ""
    for path in sorted((bundle / "entries").iterdir()):
        entry = json.loads(path.read_bytes())
        change(entry["kind"], entry["data"])
        if entry["kind"] == "open":
            entry["objects"] = sorted(set(entry["data"]["submission"]["files"].values()))
        data = entry_bytes(entry["seq"], prev, entry["kind"], entry["time"], entry["data"], tuple(entry["objects"]))
        path.chmod(0o644)
        path.write_bytes(data)
        prev = hashlib.sha256(data).hexdigest()


def usual_runs(folder: Path) -> list[Path]:
    """Two models on one problem: one is honest, one leaks."""
    return [
        graded_run(folder / "runs", 1, "01_fp8_gemm-triton", model="honest"),
        graded_run(folder / "runs", 2, "01_fp8_gemm-library_product", model="leaking"),
    ]


def release_of(archive: Archive, target: Path, **more: Any) -> Verified:
    """A release without the linter, which is slow."""
    return write_release(archive, target, usual_options(), **{"lint": False, **more})


def forged_release(
    folder: Path, target: Path, monkeypatch: pytest.MonkeyPatch, changes: Mapping[str, Change], beside: bytes = b""
) -> None:
    """A release whose hashes all fit, by somebody who checks nothing; each grading is forged otherwise, and the
    run's model says how.
    """
    with monkeypatch.context() as blind:
        blind.setattr("harness.archive.store.faults_of", lambda *_: [])
        blind.setattr("harness.release.entries.entry_faults", lambda *_: [])
        runs = [
            graded_run(folder / "runs", number, "01_fp8_gemm-triton", change, beside, model=f"forged-{how}")
            for number, (how, change) in enumerate(changes.items(), 1)
        ]
        runs.append(graded_run(folder / "runs", 99, "01_fp8_gemm-library_product", model="leaking"))
        release_of(archive_of(folder / "a", *runs), target)
