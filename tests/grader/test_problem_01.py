"""FP8 GEMM: what is right passes every case, and the cases are what their sentences say."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from deck_cases import drawn, eager, judged, legal, loaded, mutant, oracle, shape_of

from grader.authoring.tolerance import read
from grader.deck.correctness import compare
from grader.deck.precision import matmul
from kbh_lint.problems import Shape

ID = "01_fp8_gemm"
REDUCED = loaded(ID)[0].reduced
DECODE = [shape_of(M=32, N=512, K=8192), shape_of(M=64, N=256, K=4127)]


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


class SplitK(torch.nn.Module):
    """A split-K kernel: parts of K are scaled and added to y in the order in which they come, in `dtype`."""

    def __init__(self, init: Mapping[str, Any], dtype: torch.dtype, parts: int = 32) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(init["N"], init["K"], dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(init["N"]))
        self.dtype, self.parts = dtype, parts

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pairs = list(zip(x.float().chunk(self.parts, 1), self.weight.float().chunk(self.parts, 1), strict=True))
        total = torch.zeros(x.shape[0], self.weight.shape[0], dtype=self.dtype)
        for at in torch.randperm(len(pairs), generator=torch.Generator().manual_seed(3)).tolist():
            part, weight = pairs[at]
            added = (part @ weight.T * self.weight_scale).to(self.dtype)
            total = (total.float() + added.float()).to(self.dtype)
        return total.to(torch.bfloat16)


@pytest.mark.parametrize("shape", DECODE, ids=lambda shape: shape.label)
def test_a_split_k_that_adds_into_bf16_is_wrong_and_one_that_adds_into_fp32_is_right(shape: Shape) -> None:
    atomics = [judged(ID, SplitK(c.binding.init, torch.bfloat16), c) for c in drawn(ID, shape, ("nominal", "stress"))]
    assert not all(found.ok for found in atomics)
    assert 0.02 < max(found.error for found in atomics) < 0.05
    for case in drawn(ID, shape):
        assert judged(ID, SplitK(case.binding.init, torch.float32), case).ok, case.spec.id


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
