"""FP8 GEMM: what is right passes every case, and the cases are what their sentences say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from deck_cases import drawn, eager, judged, legal, loaded, mutant, oracle

from grader.correctness import compare
from grader.precision import matmul
from grader.problems.tolerance import read

ID = "01_fp8_gemm"
REDUCED = loaded(ID)[0].reduced


def faultless(init: object) -> torch.nn.Module:
    """The module that the mutants are made of, with nothing changed."""
    module = mutant(ID, "scale-ignored", init)  # type: ignore[arg-type]
    module.change = sys.modules[type(module).__module__].unchanged
    return module


@pytest.mark.parametrize("shape", [REDUCED[1], REDUCED[2]], ids=lambda shape: shape.label)
def test_the_reference_the_legal_model_and_the_faultless_mutant_are_right_on_every_case(shape: object) -> None:
    for case in drawn(ID, shape):  # type: ignore[arg-type]
        assert judged(ID, eager(ID, case), case).ok, case.spec.id
        assert judged(ID, faultless(case.binding.init), case).ok, case.spec.id
        assert compare(legal(ID, case), oracle(ID, case), case).ok, case.spec.id


def test_the_oracle_is_the_sum_of_scaled_products() -> None:
    case = next(drawn(ID, REDUCED[1]))
    x, weight = case.inputs["x"].double(), case.state["weight"].double()
    for row, column in ((0, 0), (255, 3), (17, 255)):
        want = sum(float(a) * float(b) for a, b in zip(x[row], weight[column], strict=True))
        assert oracle(ID, case)[0][row, column] == pytest.approx(want * float(case.state["weight_scale"][column]))


def test_values_stay_in_the_domain_of_the_activation() -> None:
    for case in drawn(ID, REDUCED[0], ("nominal", "structure")):
        assert float(case.inputs["x"].float().abs().max()) <= 4, case.spec.id


def test_a_skipped_tail_of_any_length_is_most_of_the_sum() -> None:
    for case in drawn(ID, REDUCED[1], ("structure/hot-tail",)):
        columns = case.spec.plan["columns"]
        tail = case.inputs["x"].double()[:, -columns:] @ case.state["weight"].double()[:, -columns:].T
        whole = oracle(ID, case)[0] / case.state["weight_scale"].double()
        assert float(tail.square().mean()) > 0.5 * float(whole.square().mean())


def test_sums_that_grow_are_where_the_short_accumulator_loses_most() -> None:
    lost = {}
    for case in drawn(ID, REDUCED[2], ("nominal/0", "structure/one-sided/0")):
        x, weight = case.inputs["x"], case.state["weight"]
        exact = matmul(x, weight.T)
        lost[case.spec.kind] = float(((matmul(x, weight.T, "e4m3-wgmma") - exact).abs() / exact.abs()).median())
    assert lost["structure"] > 2 * lost["nominal"]


def test_the_stored_measurement_agrees_with_the_model_bit_for_bit_where_one_accumulator_runs_through_k() -> None:
    measured = read(loaded(ID)[0])["measured"]
    assert {"4096", "8192"} <= measured["k"].keys()
    for k, methods in measured["k"].items():
        assert methods["triton"]["equal"] == methods["scaled_mm, fast"]["equal"] == 1.0
        if int(k) > 128:
            assert methods["triton"]["errors"][-1] > 2 * methods["triton, promoted every 128"]["errors"][-1]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("k", [32, 4096])
def test_a_hopper_gpu_adds_fp8_products_as_the_model_does(k: int) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the model is that of sm_90")
    sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
    import measure_fp8_accumulation as tool

    a, b = tool.operands(128, k, "cuda")
    assert torch.equal(tool.triton_product(a, b, False), matmul(a, b.T, "e4m3-wgmma"))
