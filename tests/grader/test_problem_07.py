"""GEMM with 4-bit weights: the packing is what the operation says, and each part of K is seen."""

from __future__ import annotations

import pytest
import torch
from deck_cases import drawn, eager, judged, legal, loaded, mutant, oracle

from grader.deck.correctness import compare

ID = "07_w4a16_gemm"
REDUCED = loaded(ID)[0].reduced


def faultless(init: object) -> torch.nn.Module:
    """The module that the mutants are made of, with nothing changed."""
    module = mutant(ID, "three-bits", init)  # type: ignore[arg-type]
    module.change = dict
    return module


@pytest.mark.parametrize("shape", [REDUCED[0], REDUCED[1]], ids=lambda shape: shape.label)
def test_the_reference_the_legal_model_and_the_faultless_mutant_are_right_on_every_case(shape: object) -> None:
    for case in drawn(ID, shape):  # type: ignore[arg-type]
        assert judged(ID, eager(ID, case), case).ok, case.spec.id
        assert judged(ID, faultless(case.binding.init), case).ok, case.spec.id
        assert compare(legal(ID, case), oracle(ID, case), case).ok, case.spec.id


def test_the_oracle_reads_the_even_row_in_the_low_nibble_and_the_zero_point_before_the_scale() -> None:
    case = next(drawn(ID, REDUCED[1]))
    x, packed = case.inputs["x"].double(), case.state["w_q"]
    scales, zeros = case.state["scales"].double(), case.state["zeros"].double()
    for row, column in ((0, 0), (31, 767), (5, 100)):
        total = 0.0
        for k in range(x.shape[1]):
            byte = int(packed[k // 2, column])
            q = byte >> 4 if k % 2 else byte & 15
            total += float(x[row, k]) * (q - float(zeros[k // 128, column])) * float(scales[k // 128, column])
        assert oracle(ID, case)[0][row, column] == pytest.approx(total)


def test_zero_points_and_nibbles_are_those_of_four_bits() -> None:
    for case in drawn(ID, REDUCED[0]):
        zeros = case.state["zeros"].float()
        assert bool((zeros == zeros.round()).all()) and float(zeros.min()) >= 0 and float(zeros.max()) <= 15
        assert float(case.state["scales"].float().min()) > 0
    seen = next(drawn(ID, REDUCED[0])).state["w_q"]
    assert len(set((seen & 15).flatten().tolist())) == len(set((seen >> 4).flatten().tolist())) == 16


def test_end_points_are_zero_and_fifteen_only() -> None:
    for case in drawn(ID, REDUCED[1], ("structure/end-points",)):
        assert set(case.state["zeros"].float().flatten().tolist()) <= {0.0, 15.0}


def test_one_group_or_one_row_of_k_carries_most_of_the_sum() -> None:
    for case in drawn(ID, REDUCED[1], ("structure/hot",)):
        x = case.inputs["x"].float().square().mean(0)
        columns = 128 if case.spec.structure == "hot-group" else 5
        assert float(x.topk(columns).values.sum()) > 0.9 * float(x.sum())


def test_scaling_each_group_after_its_product_is_legal() -> None:
    for case in drawn(ID, REDUCED[1]):
        packed = case.state["w_q"]
        q = torch.stack((packed & 15, packed >> 4), dim=1).flatten(0, 1).float().unflatten(0, (-1, 128))
        groups = case.inputs["x"].float().unflatten(1, (-1, 128)).transpose(0, 1) @ (
            q - case.state["zeros"][:, None].float()
        )
        y = (groups * case.state["scales"][:, None].float()).sum(0).to(torch.bfloat16)
        assert compare((y,), oracle(ID, case), case).ok, case.spec.id
