"""The delta rule: its oracle is the recurrence, its domain keeps exp finite, its cases see what a kernel may drop."""

from __future__ import annotations

import pytest
import torch
from deck_cases import drawn, eager, faultless, judged, legal, loaded, mutant, oracle, shape_of

from grader.deck.cases import Case
from grader.deck.correctness import compare
from grader.deck.precision import resolve

ID = "02_kda_cutlass"
REDUCED = loaded(ID)[0].reduced
GRADED_LENGTH = shape_of(B=1, T=1024, H=1, K=128, V=128, CHUNK_SIZE=64)


def recurrence(case: Case) -> torch.Tensor:
    """The definition, one step after the other, in fp64."""
    q, k, v, g, beta = (case.inputs[name].double() for name in ("q", "k", "v", "g", "beta"))
    state = torch.zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3], dtype=torch.float64)
    out = torch.empty_like(v)
    for t in range(q.shape[1]):
        key = k[:, t, :, :, None]
        state = state * g[:, t, :, :, None].exp()
        found = (key * state).sum(-2)
        state = state + key * (beta[:, t, :, None] * (v[:, t] - found))[..., None, :]
        out[:, t] = (q[:, t, :, :, None] * state).sum(-2) * q.shape[-1] ** -0.5
    return out


@pytest.mark.parametrize("case", list(drawn(ID, REDUCED[0])), ids=lambda case: case.spec.id)
def test_the_chunked_oracle_is_the_recurrence(case: Case) -> None:
    found, want = oracle(ID, case)[0], recurrence(case)
    assert float((found - want).abs().max()) < 1e-11 * float(want.abs().max())


@pytest.mark.parametrize("shape", [*REDUCED, GRADED_LENGTH], ids=lambda shape: shape.label)
def test_every_case_stays_in_the_domain_of_g(shape: object) -> None:
    for case in drawn(ID, shape):  # type: ignore[arg-type]
        sums = case.inputs["g"].unflatten(1, (-1, 64)).cumsum(2)
        assert float(sums.min()) >= -40 and float(sums.max()) <= 8, case.spec.id


def test_the_legal_model_holds_at_the_limit_of_the_domain() -> None:
    case = next(drawn(ID, REDUCED[0]))
    case.inputs["g"].fill_(-40 / 64)
    assert compare(legal(ID, case), oracle(ID, case), case).ok


def test_the_legal_model_breaks_down_beyond_the_domain() -> None:
    case = next(drawn(ID, REDUCED[0]))
    case.inputs["g"].fill_(-100 / 64)
    assert not compare(legal(ID, case), oracle(ID, case), case).ok


def test_the_reference_the_legal_model_and_the_faultless_mutant_are_right_on_every_case() -> None:
    for case in drawn(ID, REDUCED[1]):
        assert judged(ID, eager(ID, case), case).ok, case.spec.id
        assert judged(ID, faultless(ID, "no-state", case.binding.init), case).ok, case.spec.id
        assert compare(legal(ID, case), oracle(ID, case), case).ok, case.spec.id


# With small keys the updates hardly see one another: there the inverse and the correction are next to nothing.
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("zeros", ("nominal/0", "stress/")),
        ("no-state", ("nominal/0", "stress/")),
        ("no-inverse", ("nominal/0", "stress/large_qkv", "structure/alternating-keys", "structure/full-steps")),
        ("no-correction", ("nominal/0", "stress/large_qkv", "structure/alternating-keys", "structure/full-steps")),
        ("first-order-inverse", ("nominal/0", "stress/large_qkv", "structure/alternating-keys")),
    ],
)
def test_scaling_the_inputs_hides_no_dropped_step(name: str, kinds: tuple[str, ...]) -> None:
    for case in drawn(ID, GRADED_LENGTH, kinds):
        assert not judged(ID, mutant(ID, name, case.binding.init), case).ok, case.spec.id


def test_early_values_are_all_that_a_long_memory_returns() -> None:
    for case in drawn(ID, GRADED_LENGTH, ("structure/long-memory",)):
        whole = oracle(ID, case)[0]
        read = int(case.spec.plan["read"])
        assert float(whole[:, :read].abs().max()) == 0 and float(whole[:, read:].abs().mean()) > 0
        case.inputs["v"][:, int(case.spec.plan["written"]) :] = 0
        assert torch.equal(oracle(ID, case)[0], whole)


def test_a_window_of_history_dies_of_the_long_memory() -> None:
    for case in drawn(ID, GRADED_LENGTH, ("structure/long-memory",)):
        assert judged(ID, mutant(ID, "one-chunk-of-history", case.binding.init), case).error > 0.5


def in_format(case: Case, operands: str, form: str) -> torch.Tensor:
    """A legal form's result with operands, and what is handed on between its kernels, in another format."""
    problem, code = loaded(ID)
    precision = {**resolve(problem, "sm_90a"), "operands": operands, "state-operand": operands}
    return code.variants[form](case.binding.init, case.inputs, case.state, precision)[0]


@pytest.mark.parametrize("form", ["legal", "doubling", "blocks", "scan"])
def test_fp16_operands_that_underflow_on_small_inputs_are_wrong_and_bf16_ones_are_right(form: str) -> None:
    for case in drawn(ID, GRADED_LENGTH, ("nominal/0", "stress/small_qkv")):
        want, small = oracle(ID, case), case.spec.id == "stress/small_qkv"
        assert compare((in_format(case, "bf16", form),), want, case).ok, case.spec.id
        # At their usual size the same operands are the more exact ones: what is wrong is the range of the format.
        assert compare((in_format(case, "f16", form),), want, case).ok is not small, case.spec.id


def test_a_state_that_goes_through_bf16_once_a_chunk_is_right_however_far_it_is_carried() -> None:
    shape = shape_of(B=1, T=4096, H=1, K=128, V=128, CHUNK_SIZE=64)
    for case in drawn(ID, shape, ("structure/long-memory",)):
        want = oracle(ID, case)
        assert compare((in_format(case, "bf16", "scan"),), want, case).ok
        assert not compare((in_format(case, "e4m3", "scan"),), want, case).ok
        assert not judged(ID, mutant(ID, "state-never-decays", case.binding.init), case).ok
