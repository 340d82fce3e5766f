"""Runs for tests of the board, whose gradings are those of the deck's own kernels, stored from a GPU."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

from kept import small_run
from sample_run import STARTED, Story
from stored import h200

from grader.record.bundle import Bundle
from grader.report.view import load_view, submission_files
from harness.archive import Archive, all_facts
from harness.record.archive import RECORD
from harness.record.events import FileChanged, Finding, Graded, JudgeUsed
from harness.record.usage import Usage
from harness.site.gather import gather
from harness.site.model import Site
from harness.site.write import write_site

RESULTS = h200()
EVIL = "<script>window.ran = 1</script><img src=http://127.0.0.1:9/x onerror=alert(1)>'\"\u202eabc"
# Who wrote which of the deck's kernels here: (model, problem, what is in the name of its grading).
RUNS = (
    ("vega-2", "01_fp8_gemm", "triton"), ("vega-2", "01_fp8_gemm", "cuda"), ("vega-2", "05_topk_bitonic", "cuda"),
    ("lyra-mini", "01_fp8_gemm", "compiled"), ("lyra-mini", "01_fp8_gemm", "triton"),
    ("lyra-mini", "05_topk_bitonic", "sort_keys"),
)  # fmt: skip


def bundle_of(problem: str, part: str) -> Path | None:
    """A stored grading of a problem's kernel."""
    return next(iter(sorted(RESULTS.glob(f"{problem}*-{part}-*"))), None)


def graded_run(out: Path, model: str, bundle: Path, trial: int, *, number: int = 0, **more: Any) -> Path:
    """A run that is over, with a stored grading as its own, some steps, and uses of the judge."""
    cell = load_view(bundle).cell
    text = submission_files(Bundle.open(bundle))["solution.py"]
    digest = hashlib.sha256(text).hexdigest()
    scores = cell.scores
    started = STARTED + 5400 * number
    story = Story(
        out, **{
            "run_id": f"2026-run-{number:04d}", "model": model, "agent": "claude-code", "problem": cell.problem,
            "target": cell.target.id, "trial": trial, "usage": Usage(), "solution": digest, "cell": bundle.name,
            "outcome": "PASS" if cell.outcome == "accepted" else "FAIL", "grade_outcome": cell.outcome,
            "verdict": cell.verdict.verdict, "peak_fraction": scores.peak_fraction if scores else None,
            "roofline_fraction": scores.roofline_fraction if scores else None, "strict": cell.strict,
            "started": started, "ended": started + 1500 + 60 * number, "detail": cell.reason, **more,
        },
    )  # fmt: skip
    folder = story.folder
    for step, (at, share) in enumerate(((120.0, 0.4), (520.0, 0.7), (1000.0, 0.95)), 1):
        story.elapsed = at
        story.call(Usage())
        story.tell(FileChanged("solution.py", folder.put(text if step > 1 else text[: len(text) // 2]), len(text)))
        score = None if scores is None or not scores.roofline_fraction else scores.roofline_fraction * share
        told = JudgeUsed("benchmark", digest, "passed" if score else "wrong", "", score, 0.5, 10.0)
        story.tell(told, seen="run", after=20.0)
    score = scores.roofline_fraction if scores else None
    story.tell(Graded(digest, cell.outcome, cell.verdict.verdict, score, bundle.name), seen="run")
    shutil.copytree(bundle, folder.path / RECORD / "cells" / bundle.name)
    folder.write("solution.py", text)
    folder.release()
    return folder.path


def small_archive(folder: Path) -> Archive:
    """RUNS, three runs that nobody graded, one of them hostile in all that it says, and a grading without a run."""
    made, out = Archive.create(folder / "archive"), folder / "runs"
    out.mkdir()
    for number, (model, problem, part) in enumerate(RUNS, 1):
        bundle = bundle_of(problem, part)
        assert bundle is not None
        made.add(graded_run(out, model, bundle, number, number=number))
    ended = (
        ("broken", "draco", "ERR", "provider-credit", "there is no credit left"),
        ("idle", "draco", "FAIL", "budget", "the budget is over"),
    )
    for name, model, outcome, ending, detail in ended:
        folder = small_run(
            out, name, model=model, agent="codex", problem="05_topk_bitonic", target="h200", outcome=outcome,
            ending=ending, detail=detail, grade_outcome="", verdict="", solution="",
        )  # fmt: skip
        (folder / "solution.py").unlink()
        made.add(folder)
    made.add(small_run(
        out, "hostile", text=f"# {EVIL}\n", model=f"=cmd() {EVIL[:60]}", agent=EVIL[:60], problem=f"../../{EVIL[:40]}",
        target="h200", detail=EVIL, harness=EVIL, grade_outcome="wrong", verdict=EVIL[:30],
        findings=(Finding("contamination", EVIL[:60], EVIL, evidence=EVIL),),
    ))  # fmt: skip
    made.add(bundle_of("01_fp8_gemm", "idle_kernel") or out)
    return made


def site_of(archive: Archive, target: Path, **more: Any) -> Site:
    """The site of an archive, written to a folder."""
    site = gather(archive, all_facts(archive), **more)
    write_site(site, target)
    return site
