"""Solutions that are known ones with another face, and those that only have the same problem."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from harness.contamination.resemblance import ALIKE, Known, Library, known_library, near_identical, prints, resemblance
from harness.record.archive import RunFolder
from harness.record.run import RunRecord
from kbh_lint.base.paths import problems_dir

ROOT = Path(__file__).resolve().parents[2]
DECK = problems_dir()
HONEST = sorted(DECK.glob("*/honest/**/*.py"))
OURS = DECK / "07_w4a16_gemm/honest/triton.py"


def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_resemblance", ROOT / "bench/resemblance.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REWRITES = bench().REWRITES


@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_rewritten_solution_is_still_the_known_one(rewrite: str) -> None:
    for file in HONEST:
        problem = file.relative_to(DECK).parts[0]
        found = resemblance(REWRITES[rewrite](file.read_text(encoding="utf-8")), known_library(problem))
        assert any(match.label == f"honest solution {file.stem} of {problem}" for match in found), file


def test_two_ways_to_solve_one_problem_are_two_solutions() -> None:
    for problem in ("01_fp8_gemm", "04_kahan_softmax", "05_topk_bitonic", "07_w4a16_gemm"):
        triton = (DECK / problem / "honest/triton.py").read_text(encoding="utf-8")
        found = resemblance(triton, known_library(problem))
        assert not [match for match in found if match.label.startswith("honest solution cuda")]
        assert (found[0].label, found[0].alike) == (f"honest solution triton of {problem}", 1.0)


def test_what_was_given_and_what_is_short_counts_for_nothing() -> None:
    reference = (DECK / "06_sonic_moe_swiglu/reference.py").read_text(encoding="utf-8")
    assert resemblance(reference, known_library("06_sonic_moe_swiglu")) == []
    assert (
        resemblance("def f(x):\n    return x\n", Library((Known("short", prints("def f(x):\n    return x\n")),))) == []
    )
    assert resemblance("", known_library("06_sonic_moe_swiglu")) == []


def test_a_known_solution_inside_a_longer_text_is_found() -> None:
    longer = OURS.read_text(encoding="utf-8") + "\n\n" + (DECK / "09_fmha_preattn_mrope/honest/triton.py").read_text()
    (best, *_) = resemblance(longer, known_library("07_w4a16_gemm"))
    assert best.label == "honest solution triton of 07_w4a16_gemm" and best.held > 0.95 and best.alike < ALIKE


def test_a_finding_names_what_it_resembles_and_the_step_that_brought_it() -> None:
    text = OURS.read_text(encoding="utf-8")
    snapshots = [(2, "import torch\n"), (5, text.replace("64", "32")), (8, text)]
    found = near_identical(text, known_library("07_w4a16_gemm"), step=9, earlier=snapshots)
    assert found[0].rule == "near-identical" and found[0].step == 5 and "since step 5" in found[0].message
    assert "honest solution triton of 07_w4a16_gemm" in found[0].message and not found[0].decisive
    assert text[:200] not in found[0].evidence


def test_runs_of_others_and_folders_of_solutions_are_known_too(tmp_path: Path) -> None:
    text = OURS.read_text(encoding="utf-8")
    for agent, problem in (("claude", "07_w4a16_gemm"), ("codex", "07_w4a16_gemm"), ("codex", "01_fp8_gemm")):
        record = RunRecord(
            f"{agent}-{problem}", agent, f"{agent} 1", "m", problem, "h200", "", 60.0, 1, "done"
        )  # fmt: skip
        folder = RunFolder.create(tmp_path / "out", record)
        (folder.path / "solution.py").write_text(text)
        folder.release()
    (tmp_path / "out" / "no-run").mkdir()
    (tmp_path / "known").mkdir()
    (tmp_path / "known" / "mine.py").write_text(text)
    library = known_library(
        "07_w4a16_gemm", known=[tmp_path / "known"], out_dir=tmp_path / "out", not_by=("claude", "m"), deck=tmp_path
    )
    assert [match.label for match in resemblance(text, library)] == [
        "the known solution mine", "the run codex-07_w4a16_gemm",
    ]  # fmt: skip


def test_cuda_in_a_file_beside_the_solution_counts() -> None:
    source = (DECK / "04_kahan_softmax/honest/cuda.py").read_text(encoding="utf-8")
    (cuda,) = (part for part in source.split('"""') if "__global__" in part)
    library = Library((Known("ours", prints("", [cuda])),))
    assert resemblance("import torch\n", library) == []
    assert [match.label for match in resemblance("import torch\n", library, [cuda])] == ["ours"]


def test_functions_of_published_libraries_are_named() -> None:
    sample = (ROOT / "tests/fingerprints/sample/softmax.py").read_text(encoding="utf-8")
    found = near_identical(sample, Library(()))
    assert {one.rule for one in found} == {"library-code"} and "kbh-sample" in found[0].message


@pytest.mark.parametrize("text", ["def f(", "\0", "x" * 100_000, "(" * 5000, json.dumps("a" * 1000)])
def test_what_is_no_python_resembles_nothing(text: str) -> None:
    assert near_identical(text, known_library("07_w4a16_gemm")) == []
