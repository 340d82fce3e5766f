"""Patch embedding: the oracle is the convolution, and each patch is judged by its own scale."""

from __future__ import annotations

import sys

import pytest
import torch
from deck_cases import drawn, eager, judged, legal, loaded, mutant, oracle

from grader.deck.correctness import compare

ID = "10_patch_embed_conv3d_gemm"
REDUCED = loaded(ID)[0].reduced


def faultless(init: object) -> torch.nn.Module:
    """The module that the mutants are made of, with nothing changed."""
    module = mutant(ID, "channels-last", init)  # type: ignore[arg-type]
    module.change = sys.modules[type(module).__module__].as_is
    return module


@pytest.mark.parametrize("shape", [REDUCED[1], REDUCED[3]], ids=lambda shape: shape.label)
def test_the_reference_the_legal_model_and_the_faultless_mutant_are_right_on_every_case(shape: object) -> None:
    for case in drawn(ID, shape):  # type: ignore[arg-type]
        assert judged(ID, eager(ID, case), case).ok, case.spec.id
        assert judged(ID, faultless(case.binding.init), case).ok, case.spec.id
        assert compare(legal(ID, case), oracle(ID, case), case).ok, case.spec.id


@pytest.mark.parametrize("shape", REDUCED, ids=lambda shape: shape.label)
def test_the_oracle_is_the_convolution_with_its_kernel_as_stride(shape: object) -> None:
    case = next(drawn(ID, shape))  # type: ignore[arg-type]
    x, weight = case.inputs["x"].double(), case.state["conv.weight"].double()[:8]
    want = torch.nn.functional.conv3d(x, weight, stride=weight.shape[2:])
    torch.testing.assert_close(oracle(ID, case)[0][:, :8], want)


def test_the_edge_of_a_patch_carries_most_of_its_sum() -> None:
    for case in drawn(ID, REDUCED[0], ("structure/hot-edge",)):
        x = case.inputs["x"].double().square().flatten()
        assert float(x.topk(x.numel() // 2).values.sum()) > 0.9 * float(x.sum())


def test_two_patches_at_most_are_not_zero_in_the_case_of_one() -> None:
    for case in drawn(ID, REDUCED[0], ("structure/one-patch",)):
        live = oracle(ID, case)[0].abs().amax(1).flatten()
        assert 1 <= int((live > 0).sum()) <= 2 and float(live[-1]) > 0


def test_patches_differ_in_size_by_their_own_powers_of_two() -> None:
    for case in drawn(ID, REDUCED[1], ("structure/mixed-patches",)):
        size = oracle(ID, case)[0].square().mean(1).sqrt()
        assert float(size.max() / size.min()) > 2 ** (case.spec.plan["spread"] - 2)
