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

from grader.authoring import readback, tolerance
from grader.authoring.tolerance import (
    MARGIN,
    QUANTILE,
    Derivation,
    Row,
    check,
    derive,
    ill_conditioned,
    moved,
    read,
    round_up,
    stored_differences,
)
from grader.deck.cases import materialise, plan_cases
from grader.deck.code import DeckError, load_code
from grader.deck.correctness import error
from kbh_lint.base import paths
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


@pytest.mark.share(3)
@pytest.mark.parametrize("problem_id", QUICK)
def test_the_legal_model_passes_its_own_problem_with_room(problem_id: str) -> None:
    problem = DECK[problem_id]
    small = replace(problem, reduced=problem.reduced[-2:-1])
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


@pytest.mark.parametrize("problem_id", GRADED)
def test_no_case_of_the_deck_moves_by_more_than_its_bound_with_the_last_bits_of_its_inputs(problem_id: str) -> None:
    problem = DECK[problem_id]
    assert ill_conditioned(problem, read(problem)["rows"]) == []


@pytest.mark.parametrize("problem_id", GRADED)
def test_at_least_three_legal_forms_are_measured_and_the_coarsest_decides(problem_id: str) -> None:
    problem = DECK[problem_id]
    names = load_code(problem).variants.keys()
    least = 5 if problem_id[:2] in ("02", "03") else 3
    assert len(names) >= least, f"write {least} legal models and name them in VARIANTS of {problem_id}/legal.py"
    for row in read(problem)["rows"]:
        assert row["variants"].keys() == names
        assert row["variants"][row["variant"]] == row["quantile"] == max(row["variants"].values())


@pytest.mark.share(3)
@pytest.mark.parametrize("problem_id", [name for name in GRADED if name not in QUICK])
def test_every_legal_form_passes_every_case_at_reduced_shapes(problem_id: str) -> None:
    problem = DECK[problem_id]
    small = replace(problem, reduced=problem.reduced[-1:])
    limits = {(place, dtype): number for place, dtype, number in tolerance._written(problem)}
    for row in derive(small, scale="reduced", draws=1).rows:
        assert row.largest <= limits[row.place, row.dtype], (row.case, row.variant)


WHOLE = [name for name in GRADED if load_code(DECK[name]).inputs_format]


@pytest.mark.share(3)
@pytest.mark.parametrize("problem_id", WHOLE)
def test_inputs_count_as_exact_only_where_no_case_at_all_would_pass_with_their_last_bits(problem_id: str) -> None:
    """INPUTS in legal.py loosens what a case is held to: a problem has it where its plain case needs it."""
    problem = DECK[problem_id]
    code, shape, master = load_code(problem), problem.reduced[-1], b"last bits"
    spec = plan_cases(problem, shape, master, code=code)[0]
    case = materialise(problem, shape, spec, master, device="cpu", code=code)
    want = code.oracle(case.binding.init, case.inputs, case.state)
    worst = {}
    for fmt in (None, code.inputs_format):
        inputs, state = moved(case, fmt, 3)
        found = zip(code.oracle(case.binding.init, inputs, state), want, case.bounds, strict=True)
        worst[fmt] = max(float(error(y, r, bound).max()) / bound.tolerance for y, r, bound in found)
    assert worst[code.inputs_format] < 0.01 and worst[None] > 1


def legal_of(tmp_path: Path, added: str) -> Problem:
    """A copy of a problem whose legal.py has more in it."""
    source = Path(DECK["10_patch_embed_conv3d_gemm"].path).parent
    for name in ("reference.py", "cases.py", "legal.py"):
        (tmp_path / name).write_text((source / name).read_text())
    with (tmp_path / "legal.py").open("a") as file:
        file.write(added)
    problem = copied(tmp_path)
    return replace(problem, reduced=problem.reduced[:1])


COARSE = """
def coarse(init, inputs, state, precision):
    \"\"\"Rounded once more on the way.\"\"\"
    return ((legal(init, inputs, state, precision)[0].float() * 1.01).to(torch.bfloat16),)
"""


def test_a_coarser_legal_form_widens_the_bound_and_is_named(tmp_path: Path) -> None:
    problem = legal_of(tmp_path, COARSE + 'VARIANTS = {"coarse": coarse}\n')
    assert list(load_code(problem).variants) == ["legal", "coarse"]
    found = derive(problem, scale="reduced", draws=1)
    assert {row.variant for row in found.rows} == {"coarse"}
    assert all(row.variants["legal"] < row.variants["coarse"] == row.quantile for row in found.rows)
    assert found.tolerances["nominal"]["bf16"] > 1.5 * problem.contracts["deck"].tolerance["bf16"]


def test_one_legal_function_is_enough(tmp_path: Path) -> None:
    problem = legal_of(tmp_path, "\ndel VARIANTS\n")
    assert list(load_code(problem).variants) == ["legal"]
    assert {row.variant for row in derive(problem, scale="reduced", draws=1).rows} == {"legal"}


def test_an_unknown_format_of_the_inputs_is_a_fault_of_the_problem(tmp_path: Path) -> None:
    with pytest.raises(DeckError, match=r"INPUTS in legal\.py of .* must be one of f32, "):
        load_code(legal_of(tmp_path, '\nINPUTS = "f31"\n'))


@pytest.mark.parametrize("wrong", ["VARIANTS = [legal]", "VARIANTS = {'a': 3}", "VARIANTS = {'legal': partial(legal)}"])
def test_forms_that_are_not_named_functions_are_a_fault_of_the_problem(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(DeckError, match=r"VARIANTS in legal\.py"):
        load_code(legal_of(tmp_path, f"\n{wrong}\n"))


def softmax_case(offset: float) -> tuple[torch.Tensor, float]:
    """How far each element of a softmax with an offset moves with the last bits of its logits, and the bound."""
    problem = DECK["04_kahan_softmax"]
    code, shape, master = load_code(problem), problem.reduced[0], b"sensitivity"
    spec = next(s for s in plan_cases(problem, shape, master, code=code) if s.structure == "common-offset")
    case = materialise(problem, shape, replace(spec, plan={"offset": offset}), master, device="cpu", code=code)
    want = code.oracle(case.binding.init, case.inputs, case.state)
    inputs, state = moved(case, None, 1)
    return error(code.oracle(case.binding.init, inputs, state)[0], want[0], case.bounds[0]), case.bounds[0].tolerance


def test_a_softmax_of_logits_near_ten_thousand_judges_its_inputs() -> None:
    errors, bound = softmax_case(10_000.0)
    assert float(errors.max()) > 25 * bound
    errors, bound = softmax_case(80.0)
    assert 0 < float(errors.max()) <= bound


def test_inputs_move_by_half_a_unit_of_their_type_or_of_a_finer_one_and_zeros_and_whole_numbers_stay() -> None:
    problem = DECK["09_fmha_preattn_mrope"]
    code, shape = load_code(problem), problem.reduced[0]
    spec = plan_cases(problem, shape, b"moved", code=code)[0]
    case = materialise(problem, shape, spec, b"moved", device="cpu", code=code)
    case.inputs["q"][0, 0] = 0
    for fmt, fraction in ((None, 8), ("f32", 24), ("e4m3", 8)):
        inputs, state = moved(case, fmt, 7)
        x = case.inputs["q"].double()
        share = (inputs["q"] - x).abs() / torch.exp2(x.abs().log2().floor() - fraction)
        assert torch.equal(inputs["q"][0, 0], x[0, 0])
        assert bool((share[0, 1:] == 1).all()) and inputs["q"].dtype == torch.float64
        assert 0.4 < float((inputs["q"] > x)[0, 1:].double().mean()) < 0.6
        assert torch.equal(inputs["pos_t"], case.inputs["pos_t"])
        assert not torch.equal(state["cos_cache"], case.state["cos_cache"].double())
    assert torch.equal(moved(case, None, 7)[0]["q"], moved(case, None, 7)[0]["q"])


def test_a_case_that_judges_its_inputs_is_told_by_the_deck_s_own_check(tmp_path: Path) -> None:
    source = DECK["10_patch_embed_conv3d_gemm"]
    stored = read(source)
    stored["rows"][0]["sensitivity"] = 0.5
    del stored["rows"][1]["sensitivity"]
    problem = copied(tmp_path, stored)
    first, second = readback._unfit(problem)
    assert f"{stored['rows'][0]['case']} at {stored['rows'][0]['shape']} moves by 0.5" in first
    assert "has no sensitivity" in second
    assert readback._unfit(source) == []
    row = replace(sample(0.006).rows[0], sensitivity=0.5)
    assert any("judge its inputs" in text for text in check(problem, replace(sample(0.006), rows=(row,))))
