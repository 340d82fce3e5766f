"""Softmax: relative everywhere, and heads above a swamp tell a running sum from a compensated one."""

from __future__ import annotations

import pytest
import torch
from deck_cases import drawn, eager, judged, legal, loaded, mutant, oracle, shape_of

from grader.deck.cases import Case
from grader.deck.correctness import compare

ID = "04_kahan_softmax"
REDUCED = loaded(ID)[0].reduced
SHORT = shape_of(batch=4, vocab=4096, extreme=False)


def with_steps(case: Case, **steps: object) -> torch.nn.Module:
    """The module that the mutants are made of, with these steps in place of theirs."""
    module = mutant(ID, "no-maximum", case.binding.init)
    module.steps = steps
    return module


def kahan(terms: torch.Tensor) -> torch.Tensor:
    """Kahan's loop in fp32 over 64 strided lanes, whose sums and losses are merged in a plain fp32 tree."""
    total = torch.zeros_like(terms[:, :64])
    lost = torch.zeros_like(total)
    for step in terms.unflatten(-1, (-1, 64)).unbind(1):
        term = step - lost
        after = total + term
        lost = (after - total) - term
        total = after
    return tree(total - lost)


def tree(terms: torch.Tensor) -> torch.Tensor:
    while terms.shape[1] > 1:
        terms = terms[:, 0::2] + terms[:, 1::2]
    return terms


@pytest.mark.parametrize("shape", [REDUCED[0], REDUCED[4]], ids=lambda shape: shape.label)
def test_the_reference_the_legal_model_and_the_faultless_mutant_are_right_on_every_case(shape: object) -> None:
    for case in drawn(ID, shape):  # type: ignore[arg-type]
        assert judged(ID, eager(ID, case), case).ok, case.spec.id
        assert judged(ID, with_steps(case), case).ok, case.spec.id
        assert compare(legal(ID, case), oracle(ID, case), case).ok, case.spec.id


@pytest.mark.parametrize("summed", [kahan, tree], ids=["compensated", "tree"])
def test_a_compensated_sum_and_a_tree_pass_every_case(summed: object) -> None:
    for shape in (SHORT, shape_of(batch=4, vocab=32768, extreme=False)):
        for case in drawn(ID, shape):
            assert judged(ID, with_steps(case, sum=summed), case).ok, case.spec.id


@pytest.mark.parametrize("shape", REDUCED, ids=lambda shape: shape.label)
def test_a_running_sum_fails_heads_and_swamp_by_more_than_rounding(shape: object) -> None:
    for case in drawn(ID, shape, ("structure/heads-and-swamp",)):  # type: ignore[arg-type]
        for name in ("running-sum-of-a-warp", "running-sum-of-chunks", "running-sum-of-tiles"):
            verdict = judged(ID, mutant(ID, name, case.binding.init), case)
            assert not verdict.ok, (name, case.spec.plan, verdict.error)
        assert case.bounds[0].region is not None
        region = case.bounds[0].region.mask
        assert bool((case.inputs["x"][region] == 0).all()) and bool((case.inputs["x"][~region] <= -17.4).all())


def test_a_term_of_the_swamp_is_lost_beside_a_head_and_the_swamp_is_not() -> None:
    for case in drawn(ID, REDUCED[1], ("structure/heads-and-swamp",)):
        swamp = case.inputs["x"].clamp(max=-17).exp()
        assert bool((1 + swamp == 1).all())
        assert float(swamp.double().sum(-1).max()) > 1e-4


def test_nothing_that_fp32_cannot_hold_is_compared() -> None:
    for shape in (SHORT, shape_of(batch=4, vocab=4096, extreme=True)):
        for case in drawn(ID, shape):
            region = case.bounds[0].region
            want = oracle(ID, case)[0]
            compared = want if region is None else want[region.mask]
            assert float(compared.min()) > 2.0**-126, case.spec.id


def test_one_logit_above_the_others_takes_its_turn_in_every_place() -> None:
    for case in drawn(ID, SHORT, ("structure/dominating",)):
        places = set(case.inputs["x"].argmax(-1).tolist())
        assert {0, 4095} <= places and len(places) == 3
