"""Cells made by hand, and a small problem that is graded with few calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from toy import KERNEL, toy_problem

from grader.grading.request import Request
from grader.judge import judging as judge
from grader.record.cell import (
    CaseOutcome,
    Cell,
    FindingRecord,
    PromiseRecord,
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
from grader.score import peaks
from grader.silicon import ShapeEvidence, Silicon
from grader.silicon.kernels import KernelRow

CPU = TargetRecord("cpu", "Some CPU", "cpu", "measured", 0.1, 20.0, "reduced", "CPU (reduced shapes)")
H200 = TargetRecord("h200", "NVIDIA H200 SXM", "cuda", "datasheet", 1979.0, 4800.0, "full")
BOX = SandboxRecord("bubblewrap", 2000000007, False)
LEAK = FindingRecord("KBH101", "fp8-upcast-bf16-gemm", "rubric_leak", "source", "the product runs on bf16", 3)
CLEAN = VerdictRecord(
    "clean", True, "", (PromiseRecord("fp8", "kept", ("kept",), {"source": "kept", "run": "kept"}, ("sass",)),), (),
    "deck", "kbh-lint 0.1.0",
)  # fmt: skip
LEAKING = VerdictRecord(
    "rubric_leak", False, "the verdict is rubric_leak", (
        PromiseRecord("fp8", "broken", ("kept",), {"source": "broken"}, ("sass",), "the product is bf16"),
    ), (LEAK,), "deck", "kbh-lint 0.1.0",
)  # fmt: skip
SOURCE = ("import triton", "", "    total = tl.dot(a.to(tl.bfloat16), b)", "    return total", "")
SCORE = ShapeScore(
    "64x16x32", 2.0e-3, 1.9e-3, 2.0e-3, 1.0e-3, 5e-6, "proved", 1, 10, 0.012, 0.4567, 0.5, 0.51, ("a note",)
)

AUTHORED = (
    "[{id: authored, kind: authored-compute, text: It runs in a kernel of the submission., quantifier: every, "
    "accepts: [kept], settled_by: [source, run], params: {work: product, inputs: [x]}}]"
)

SILICON = Silicon(
    {"sass": {"fp8": "broken"}}, {"fp8": "no fp8 product ran"}, (),
    (ShapeEvidence("64x16x32", (KernelRow("gemm<x>", (4, 1, 1), (128, 1, 1), 2, 1.5e-3, "cuBLAS"),),
                   {"bf16": 2.0e6, "fp8": 0.0}, 2.0e6, 3.0e5, 1.0e5, 2.0e5, 1.5e-3, 1.6e-3, 1.9e-3, 0.75),),
    ("no trace: the tracer is not installed",), (),
)  # fmt: skip


def trial(status: str = "right", message: str = "5 compared calls are right", log: str = "") -> TrialResult:
    """One trial of one shape."""
    timing = ShapeTiming((1.9e-3, 1.8e-3, 2.1e-3), (2e-3,) * 3, (SealedBatch(8, 1.7e-2, 1e-3),), 5e-6)
    cases = (CaseOutcome("nominal/0", status == "right", 0.0001, 0.0002),)
    shape = ShapeResult("64x16x32", status, "" if status == "right" else message, 9, 5, cases, timing)  # type: ignore[arg-type]
    return TrialResult(
        0, "c" * 64, "a" * 64, "right" if status == "right" else "wrong", message, (shape,), BOX, 3.2, log
    )


def cell(outcome: str = "accepted", **changes: object) -> Cell:
    """A cell with the outcome, and a score where that allows one."""
    scored = outcome in ("accepted", "flagged")
    verdict = CLEAN if outcome in ("accepted", "wrong", "suspect", "refused") else LEAKING
    trials = () if outcome == "refused" else (trial("wrong" if outcome == "wrong" else "right"),)
    made = Cell(
        "toy", "b" * 64, "solution.py", CPU, outcome == "withheld", "2026-11", outcome,  # type: ignore[arg-type]
        "" if outcome == "accepted" else f"it is {outcome}", verdict, trials, (SCORE,) if scored else (),
        Scores(0.4567, 0.5, 0.51) if scored else None, False, {"torch": "2.13.0"},
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def few_calls(monkeypatch: pytest.MonkeyPatch, **options: object) -> None:
    """Gradings of this test make as few calls as there can be."""
    wanted = {"samples": 3, "warmups": 0, "batches": 1, **options}
    default = judge.default_options
    monkeypatch.setattr(judge, "default_options", lambda *a, **k: replace(default(*a, **k), **wanted))


def measured_before() -> None:
    """This machine's rates are known in the cache that XDG_CACHE_HOME names: measuring them takes three seconds."""
    here = peaks.machine("cpu")
    peaks.store(peaks.Measured(here, 20.0, dict.fromkeys(peaks.PRECISIONS, 0.1)))


def toy_request(folder: Path, text: str = KERNEL, *, promises: str = AUTHORED, **options: object) -> Request:
    """A request to grade `text` on the toy problem, with the promises as YAML in one line."""
    if not (folder / "deck").exists():
        (folder / "deck").mkdir()
        toy_problem(folder / "deck")
        file = folder / "deck" / "toy" / "problem.yaml"
        head, _, rest = file.read_text().partition("promises:\n")
        file.write_text(f"{head}promises: {promises}\nbans:\n" + rest.partition("bans:\n")[2])
    file = folder / "mine.py"
    file.write_text(text)
    settings = {"out": folder / "out", "problems_dir": folder / "deck", "sandbox": "plain", "timeout": 60.0, **options}
    return Request(file, "toy", target="cpu", **settings)  # type: ignore[arg-type]
