"""Tolerances are what the derivation gives, in every problem, and the derivation is what its docstring says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grader.deck import DeckError
from grader.problems import tolerance
from grader.problems.tolerance import (
    MARGIN,
    QUANTILE,
    Derivation,
    Row,
    check,
    derive,
    read,
    round_up,
    stored_differences,
)
from kbh_lint import paths
from kbh_lint.problems import Problem, load_deck

DECK = load_deck(paths.problems_dir())
GRADED = [problem_id for problem_id in DECK if DECK[problem_id].status == "graded"]
QUICK = ["01_fp8_gemm", "05_topk_bitonic", "07_w4a16_gemm", "10_patch_embed_conv3d_gemm"]


@pytest.mark.parametrize("problem_id", GRADED)
def test_every_tolerance_of_the_deck_is_the_stored_derivation_rounded_up(problem_id: str) -> None:
    problem = DECK[problem_id]
    stored = read(problem)
    assert stored_differences(problem) == []
    assert (stored["problem"], stored["quantile"], stored["margin"]) == (problem_id, QUANTILE, MARGIN)
    for place, by in stored["tolerances"].items():
        for dtype, number in by.items():
            rows = [row for row in stored["rows"] if (row["place"], row["dtype"]) == (place, dtype)]
            exact = MARGIN * max(row["quantile"] for row in rows)
            # Rows are stored with four digits.
            assert exact * 0.999 <= number <= round_up(exact * 1.001)


@pytest.mark.parametrize("problem_id", GRADED)
def test_the_stored_derivation_covers_every_case_and_architecture(problem_id: str) -> None:
    problem = DECK[problem_id]
    rows = read(problem)["rows"]
    wanted = {"nominal", *(f"stress/{s.id}" for s in problem.stress), *(f"structure/{c.id}" for c in problem.cases)}
    assert {row["case"] for row in rows} == wanted
    for case in wanted:
        assert {sm for row in rows if row["case"] == case for sm in row["architectures"]} == {
            "sm_120a",
            "sm_90a",
            "sm_100a",
        }


@pytest.mark.parametrize("problem_id", QUICK)
def test_the_legal_model_passes_its_own_problem_with_room(problem_id: str) -> None:
    problem = DECK[problem_id]
    small = replace(problem, reduced=problem.reduced[-2:])
    found = derive(small, scale="reduced", draws=1)
    assert found.rows
    limits = {(place, dtype): number for place, dtype, number in tolerance._written(problem)}
    for row in found.rows:
        assert row.largest <= 0.75 * limits[row.place, row.dtype] if row.dtype != "exact" else row.largest == 0


def test_a_derivation_gives_the_same_numbers_again() -> None:
    problem = DECK["10_patch_embed_conv3d_gemm"]
    small = replace(problem, reduced=problem.reduced[:1])
    assert derive(small, scale="reduced", draws=1) == derive(small, scale="reduced", draws=1)


@given(st.floats(1e-12, 1e6))
def test_rounding_up_keeps_two_digits_and_is_never_below(value: float) -> None:
    rounded = round_up(value)
    assert value * (1 - 1e-9) <= rounded <= value * 1.1000001
    assert float(f"{rounded:.2g}") == rounded == round_up(rounded)


def test_the_quantile_of_a_pool_is_that_of_all_its_parts() -> None:
    errors = torch.rand(3_000_000, generator=torch.Generator().manual_seed(1))
    pool = tolerance._Pool()
    for part in errors.split(700_001):
        pool.add(part)
    ordered = errors.sort(descending=True).values
    assert pool.elements == 3_000_000
    assert pool.quantile() == ordered[3].item()
    assert (errors > pool.quantile()).sum() <= 3


def test_few_elements_give_their_largest_error() -> None:
    pool = tolerance._Pool()
    pool.add(torch.tensor([0.1, 0.4, 0.2]))
    assert pool.quantile() == pytest.approx(0.4)


def sample(number: float) -> Derivation:
    row = Row("nominal", "nominal", "shape", ("sm_90a",), "bf16", 10, number / MARGIN, number / MARGIN)
    return Derivation("10_patch_embed_conv3d_gemm", "sample", 1, "cpu", (row,), {"nominal": {"bf16": number}})


def copied(tmp_path: Path, stored: dict[str, Any] | None = None) -> Problem:
    problem = DECK["10_patch_embed_conv3d_gemm"]
    if stored is not None:
        (tmp_path / "tolerance.json").write_text(json.dumps(stored))
    return replace(problem, path=str(tmp_path / "problem.yaml"))


def test_a_number_that_is_not_the_derived_one_is_told() -> None:
    problem = DECK["10_patch_embed_conv3d_gemm"]
    number = problem.contracts["deck"].tolerance["bf16"]
    assert check(problem, sample(number)) == []
    assert check(problem, sample(number * 1.04)) == []
    assert check(problem, sample(number / 2)) == [
        f"{problem.id}: the bf16 tolerance of nominal is {number:g}, and {number / 2:g} is derived"
    ]
    assert check(problem, replace(sample(number), tolerances={})) == [
        f"{problem.id}: nothing derives the bf16 tolerance of nominal"
    ]


def test_a_stored_derivation_is_read_back_and_measurements_stay(tmp_path: Path) -> None:
    problem = copied(tmp_path, {"tolerances": {}, "measured": {"k": 1}})
    number = problem.contracts["deck"].tolerance["bf16"]
    assert len(stored_differences(problem)) == 1
    tolerance.write(problem, sample(number))
    stored = read(problem)
    assert stored["measured"] == {"k": 1}
    assert stored["rows"][0]["elements"] == 10
    assert stored_differences(problem) == []


@pytest.mark.parametrize("text", ["", "[]", '{"tolerances": 3}', "{"])
def test_a_stored_file_that_is_not_a_derivation_is_one_sentence(tmp_path: Path, text: str) -> None:
    problem = copied(tmp_path)
    with pytest.raises(DeckError, match=r"has no tolerance\.json"):
        read(problem)
    (tmp_path / "tolerance.json").write_text(text)
    with pytest.raises(DeckError, match=r"tolerance\.json of 10_patch"):
        read(problem)


def test_draws_and_missing_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DeckError, match="1 to 1000, not 0"):
        derive(DECK["10_patch_embed_conv3d_gemm"], draws=0)
    source = Path(DECK["10_patch_embed_conv3d_gemm"].path).parent
    for name in ("reference.py", "cases.py"):
        (tmp_path / name).write_text((source / name).read_text())
    with pytest.raises(DeckError, match=r"no legal\.py"):
        derive(copied(tmp_path))


def test_the_table_has_every_row_and_tolerance() -> None:
    text = tolerance.table(sample(0.006))
    assert "nominal" in text and "0.003" in text and "nominal: bf16 0.006" in text
