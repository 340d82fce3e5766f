"""Ceilings: which peak binds, what a launch leaves, and what evidence adds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from grader.authoring.roofline import ceilings, table
from kbh_lint.authors.floors import peak_name
from kbh_lint.base import paths
from kbh_lint.problems import Problem, Target, load_problem, load_targets

DECK = paths.problems_dir()


@pytest.fixture(scope="module")
def targets() -> dict[str, Target]:
    return load_targets(DECK / "hardware.yaml")


def problem(name: str) -> Problem:
    return load_problem(DECK / name / "problem.yaml")


def test_a_square_fp8_gemm_is_bound_by_compute_and_a_decode_step_by_memory(targets: dict[str, Target]) -> None:
    square, _, decode, _ = ceilings(problem("01_fp8_gemm"), targets, ["h200"])
    assert (square.binding, decode.binding) == ("compute", "memory")
    assert square.t_floor == pytest.approx(2 * 4096**3 / 1979e12)
    assert decode.t_floor == pytest.approx((32 * 8192 + 8192 * 8192 + 32 * 8192 * 2) / 4800e9)
    assert square.t_null is not None
    assert square.ceiling == pytest.approx(square.t_floor / (square.t_floor + square.t_null))


def test_without_evidence_of_a_target_only_the_floor_is_known(targets: dict[str, Target]) -> None:
    found = list(ceilings(problem("01_fp8_gemm"), targets, ["b200"]))
    assert found and all(one.t_floor > 0 and one.ceiling is None and one.attainable is None for one in found)


@pytest.mark.parametrize(
    ("precision", "peak"),
    [("fp8_e4m3", "fp8"), ("int4_bf16", "bf16"), ("fp32", "fp32"), ("bf16", "bf16"), ("fp6", None)],
)
def test_a_precision_is_scored_against_the_peak_of_its_arithmetic(
    precision: str, peak: str | None, targets: dict[str, Target]
) -> None:
    assert peak_name(precision, targets["h200"]) == peak


def test_evidence_gives_the_launch_and_the_best_honest_time(tmp_path: Path, targets: dict[str, Target]) -> None:
    folder = tmp_path / "05_topk_bitonic"
    shutil.copytree(DECK / folder.name, folder, ignore=shutil.ignore_patterns("evidence", "__pycache__"))
    copied = load_problem(folder / "problem.yaml")
    label = copied.shapes[0].label
    entry = {"kind": "honest", "outcome": "passed", "shapes": {label: {"seconds": 8e-6}}}
    solutions = {
        "honest/slow.py": entry,
        "honest/fast.py": {**entry, "shapes": {label: {"seconds": 4e-6}}},
        "honest/wrong.py": {**entry, "outcome": "failed", "shapes": {label: {"seconds": 1e-6}}},
        "decoys/library.py": {**entry, "kind": "decoy", "shapes": {label: {"seconds": 1e-6}}},
    }
    (folder / "evidence").mkdir()
    (folder / "evidence" / "h200.json").write_text(json.dumps({"launch_s": 2e-6, "solutions": solutions}))
    first = next(ceilings(copied, targets, ["h200"]))
    assert (first.best, first.solution, first.t_null) == (4e-6, "honest/fast.py", 2e-6)
    assert first.attainable == pytest.approx((first.t_floor + 2e-6) / 4e-6)
    assert first.ceiling == pytest.approx(first.t_floor / (first.t_floor + 2e-6))
    assert "4.00" in table([first])


def test_a_declared_regime_that_does_not_bind_is_marked(tmp_path: Path, targets: dict[str, Target]) -> None:
    folder = tmp_path / "01_fp8_gemm"
    folder.mkdir()
    text = (DECK / folder.name / "problem.yaml").read_text().replace(", regime: memory", "")
    (folder / "problem.yaml").write_text(text)
    rows = table(ceilings(load_problem(folder / "problem.yaml"), targets, ["h200"])).splitlines()
    assert [("*" in row) for row in rows[1:]] == [False, False, True, False]
