"""Top-k: an exact comparison, and rows that find a part which is never read or a key which is not the value."""

from __future__ import annotations

import sys

import pytest
import torch
from deck_cases import drawn, eager, judged, legal, loaded, mutant, oracle

from grader.deck.correctness import compare

ID = "05_topk_bitonic"
REDUCED = loaded(ID)[0].reduced


def faultless(init: object) -> torch.nn.Module:
    """The module that the mutants are made of, with nothing changed."""
    module = mutant(ID, "smallest", init)  # type: ignore[arg-type]
    module.key = sys.modules[type(module).__module__].plain
    return module


@pytest.mark.parametrize("shape", REDUCED, ids=lambda shape: shape.label)
def test_the_reference_the_legal_model_and_the_faultless_mutant_are_right_on_every_case(shape: object) -> None:
    for case in drawn(ID, shape):  # type: ignore[arg-type]
        assert judged(ID, eager(ID, case), case).ok, case.spec.id
        assert judged(ID, faultless(case.binding.init), case).ok, case.spec.id
        assert compare(legal(ID, case), oracle(ID, case), case).ok, case.spec.id


def test_the_oracle_is_the_sorted_row_cut_off() -> None:
    for case in drawn(ID, REDUCED[3], ("nominal/0", "structure/ties", "structure/close")):
        values, indices = oracle(ID, case)
        x = case.inputs["x"]
        assert indices.dtype == torch.int64 and values.dtype == torch.float64
        for row in range(x.shape[0]):
            assert values[row].tolist() == sorted(x[row].tolist(), reverse=True)[:16]
            assert values[row].tolist() == x[row][indices[row]].tolist()


def test_either_of_two_equal_values_may_be_chosen() -> None:
    for case in drawn(ID, REDUCED[1], ("structure/ties",)):
        x = case.inputs["x"]
        flipped = x.flip(-1).sort(dim=-1, descending=True, stable=True)
        indices = (x.shape[1] - 1 - flipped.indices)[:, :8].contiguous()
        values = flipped.values[:, :8].contiguous()
        assert compare((values, indices), oracle(ID, case), case).ok


@pytest.mark.parametrize("shape", [REDUCED[0], REDUCED[3]], ids=lambda shape: shape.label)
def test_more_than_k_of_the_largest_values_lie_in_one_stretch(shape: object) -> None:
    for case in drawn(ID, shape, ("structure/clustered",)):  # type: ignore[arg-type]
        indices = oracle(ID, case)[1]
        plan = case.spec.plan
        assert bool((indices >= plan["start"]).all()) and bool((indices < plan["start"] + plan["length"]).all())
        stretch = case.inputs["x"][:, plan["start"] : plan["start"] + plan["length"]]
        assert int((stretch > 8).sum(-1).min()) > indices.shape[1]


def test_edges_hold_the_largest_values() -> None:
    for case in drawn(ID, REDUCED[0], ("structure/edges",)):
        indices = set(oracle(ID, case)[1][0].tolist())
        assert {0, 16383} <= indices


def test_every_value_of_the_negative_case_is_below_zero_and_finite() -> None:
    for shape in REDUCED:
        for case in drawn(ID, shape, ("structure/negative",)):
            x = case.inputs["x"]
            assert bool((x < 0).all()) and bool(torch.isfinite(x).all())


def test_close_values_are_neighbours_in_fp32() -> None:
    for case in drawn(ID, REDUCED[1], ("structure/close",)):
        bits = case.inputs["x"].view(torch.int32).sort(dim=-1).values
        assert bool((bits.diff(dim=-1) == 1).all())
