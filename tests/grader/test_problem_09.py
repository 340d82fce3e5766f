"""The rotary embedding: positions at their limits, axes that differ, and a right answer in every element."""

from __future__ import annotations

import math

import pytest
import torch
from deck_cases import drawn, eager, faultless, judged, legal, loaded, mutant, oracle

from grader.deck.correctness import compare

ID = "09_fmha_preattn_mrope"
REDUCED = loaded(ID)[0].reduced
AXES = ("pos_t", "pos_h", "pos_w")


@pytest.mark.parametrize("shape", REDUCED, ids=lambda shape: shape.label)
def test_the_reference_the_legal_model_and_the_faultless_mutant_are_right_on_every_case(shape: object) -> None:
    for case in drawn(ID, shape):  # type: ignore[arg-type]
        assert judged(ID, eager(ID, case), case).ok, case.spec.id
        assert judged(ID, faultless(ID, "no-sign", case.binding.init), case).ok, case.spec.id
        assert compare(legal(ID, case), oracle(ID, case), case).ok, case.spec.id


def test_a_pair_of_channels_turns_by_the_angle_of_its_section() -> None:
    case = next(drawn(ID, REDUCED[0]))
    token, head = 5, 3
    for channel, axis in ((0, "pos_t"), (15, "pos_t"), (16, "pos_h"), (39, "pos_h"), (40, "pos_w"), (63, "pos_w")):
        at = int(case.inputs[axis][0, token])
        cos, sin = (float(case.state[name][at, channel]) for name in ("cos_cache", "sin_cache"))
        assert math.isclose(math.hypot(cos, sin), 1, abs_tol=2**-8)
        left, right = (float(case.inputs["q"][0, token, head, c]) for c in (channel, channel + 64))
        found = oracle(ID, case)[0][0, head, token, [channel, channel + 64]]
        assert float(found[0]) == pytest.approx(left * cos - right * sin, abs=1e-12)
        assert float(found[1]) == pytest.approx(right * cos + left * sin, abs=1e-12)


@pytest.mark.parametrize("shape", REDUCED, ids=lambda shape: shape.label)
def test_positions_stay_inside_the_tables(shape: object) -> None:
    for case in drawn(ID, shape):  # type: ignore[arg-type]
        for axis in AXES:
            at = case.inputs[axis]
            assert int(at.min()) >= 0 and int(at.max()) < case.state["cos_cache"].shape[0], case.spec.id


def test_extreme_positions_reach_both_ends_on_every_axis() -> None:
    for case in drawn(ID, REDUCED[1], ("structure/extreme-positions",)):
        last = case.state["cos_cache"].shape[0] - 1
        for axis in AXES:
            assert int(case.inputs[axis].min()) == 0 and int(case.inputs[axis].max()) == last


def test_text_has_one_position_and_a_grid_three() -> None:
    for case in drawn(ID, REDUCED[0], ("structure/text-and-grid",)):
        t, h, w = (case.inputs[axis] for axis in AXES)
        text = int(case.spec.plan["text"])
        assert torch.equal(t[:, :text], h[:, :text]) and torch.equal(h[:, :text], w[:, :text])
        assert not torch.equal(h[:, text:], w[:, text:]) and not torch.equal(t[:, text:], w[:, text:])


@pytest.mark.parametrize("name", ["zeros", "height-and-width-exchanged"])
def test_no_scale_of_the_inputs_hides_a_wrong_rotation(name: str) -> None:
    for case in drawn(ID, REDUCED[0], ("nominal/0", "stress/", "structure/own-heads")):
        assert not judged(ID, mutant(ID, name, case.binding.init), case).ok, case.spec.id


def test_products_that_cancel_show_rounding_on_the_way() -> None:
    for case in drawn(ID, REDUCED[0], ("structure/cancelling-pairs",)):
        found = judged(ID, mutant(ID, "bf16-arithmetic", case.binding.init), case)
        assert found.error > 2 * found.tolerance
