"""The grouped GEMM: routing of every kind, rows of every size, and no expert that is not looked at."""

from __future__ import annotations

import pytest
import torch
from deck_cases import drawn, eager, faultless, judged, legal, loaded, mutant, oracle

from grader.deck.correctness import compare

ID = "06_sonic_moe_swiglu"
REDUCED = loaded(ID)[0].reduced


@pytest.mark.parametrize("shape", REDUCED, ids=lambda shape: shape.label)
def test_the_reference_the_legal_model_and_the_faultless_mutant_are_right_on_every_case(shape: object) -> None:
    for case in drawn(ID, shape):  # type: ignore[arg-type]
        assert judged(ID, eager(ID, case), case).ok, case.spec.id
        assert judged(ID, faultless(ID, "gelu", case.binding.init), case).ok, case.spec.id
        assert compare(legal(ID, case), oracle(ID, case), case).ok, case.spec.id


def test_the_oracle_gives_each_row_its_own_expert() -> None:
    case = next(drawn(ID, REDUCED[1], ("structure/unbalanced",)))
    owners = torch.bucketize(torch.arange(256), case.inputs["expert_offsets"][1:].long(), right=True)
    for row in (0, 17, 100, 255):
        x, expert = case.inputs["hidden_states"][row].double(), int(owners[row])
        gate, up = (x @ case.state[name][expert].double() for name in ("W_gate", "W_up"))
        torch.testing.assert_close(oracle(ID, case)[0][row], gate / (1 + (-gate).exp()) * up)


def test_an_expert_that_owns_more_rows_than_the_oracle_takes_at_a_time_is_whole() -> None:
    code = loaded(ID)[1]
    generator = torch.Generator().manual_seed(0)
    rows, width = 40_000, 8
    inputs = {
        "hidden_states": torch.randn(rows, width, generator=generator).bfloat16(),
        "expert_offsets": torch.tensor([0, 3, rows], dtype=torch.int32),
    }
    state = {name: torch.randn(2, width, width, generator=generator).bfloat16() for name in ("W_gate", "W_up")}
    gate, up = (inputs["hidden_states"][3:].double() @ state[name][1].double() for name in ("W_gate", "W_up"))
    torch.testing.assert_close(code.oracle({}, inputs, state)[0][3:], torch.nn.functional.silu(gate) * up)


@pytest.mark.parametrize("shape", REDUCED, ids=lambda shape: shape.label)
def test_every_routing_is_a_partition_of_the_rows(shape: object) -> None:
    for case in drawn(ID, shape):  # type: ignore[arg-type]
        bounds = case.inputs["expert_offsets"].long()
        assert int(bounds[0]) == 0 and int(bounds[-1]) == case.inputs["hidden_states"].shape[0]
        assert bool((bounds.diff() >= 0).all())


def test_one_expert_owns_most_rows_and_some_own_none() -> None:
    for shape in REDUCED:
        rows = int(shape.symbols["T_total"]) * int(shape.symbols["K"])
        for case in drawn(ID, shape, ("structure/unbalanced",)):
            assert int(case.inputs["expert_offsets"].diff().max()) > rows // 2
        for case in drawn(ID, shape, ("structure/empty-experts",)):
            empty = (case.inputs["expert_offsets"].diff() == 0).tolist()
            assert sum(empty) >= int(shape.symbols["E"]) // 2 and False in empty[empty.index(True) :]


def test_mixed_rows_reach_gates_that_saturate_and_gates_that_do_not() -> None:
    for case in drawn(ID, REDUCED[0], ("structure/mixed-rows",)):
        offsets = case.inputs["expert_offsets"].tolist()
        gate = case.inputs["hidden_states"][: offsets[1]].float() @ case.state["W_gate"][0].float()
        assert float(gate.max()) > 4 and float(gate.std(-1).min()) < 0.1


@pytest.mark.parametrize("name", ["zeros", "last-slice-of-H", "capped-at-the-mean", "bf16-accumulator"])
def test_no_scale_of_the_inputs_hides_missing_work(name: str) -> None:
    for case in drawn(ID, REDUCED[0], ("nominal/0", "stress/")):
        assert not judged(ID, mutant(ID, name, case.binding.init), case).ok, case.spec.id
