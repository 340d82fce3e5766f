"""Oracles that are launched as a graph: when one is made, and that it gives the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.deck import oracles
from grader.deck.cases import CaseSpec, materialise
from grader.deck.code import load_code, problems_dir
from grader.deck.keys import new_master
from grader.deck.oracles import Replayed
from kbh_lint.problems import load_deck

TENSORS = {"x": torch.ones(2)}


class Fake:
    """An oracle and a graph of it, which say who was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def oracle(self, init: Mapping[str, Any], *given: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        self.asked.append("eager")
        return (given[0]["x"] * init["n"],)

    def replayed(self, *given: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        self.asked.append("graph")
        return (given[0]["x"] * 2,)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    found = Fake()
    monkeypatch.setattr(oracles, "_captured", lambda *_: found)
    return found


def clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Each look at the clock is so much later than the one before."""
    times = iter(range(1000))
    monkeypatch.setattr(oracles, "_settled", lambda: next(times) * seconds)


def test_a_slow_oracle_is_captured_in_its_second_call_of_a_shape_and_the_latest_shape_alone_is_kept(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock(monkeypatch, 0.01)
    oracle = Replayed(fake.oracle)
    for n in (2, 2, 2, 3, 3, 3, 2):
        oracle._given({"n": n}, TENSORS, {})
    assert fake.asked == ["eager", "eager", "graph", "eager", "eager", "graph", "eager"]
    oracle._given({"n": 3}, {"x": torch.ones(3)}, {})
    assert fake.asked[-1] == "eager", "another shape"


def test_a_quick_oracle_is_never_captured(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    clock(monkeypatch, 0.001)
    oracle = Replayed(fake.oracle)
    for _ in range(4):
        oracle._given({"n": 2}, TENSORS, {})
    assert fake.asked == ["eager"] * 4


def test_nothing_is_captured_on_a_cpu_or_while_others_use_the_device(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock(monkeypatch, 0.01)
    oracle = Replayed(fake.oracle)
    for quiet in (False, True):
        oracle.quiet = quiet
        for _ in range(3):
            assert torch.equal(oracle({"n": 2}, TENSORS, {})[0], torch.full((2,), 2.0))
    assert fake.asked == ["eager"] * 6


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("name", "captured"), [("02_kda_cutlass", True), ("03_paged_attention", False)])
def test_a_graph_gives_the_bits_of_the_oracle_on_other_inputs(name: str, captured: bool) -> None:
    problem = load_deck(problems_dir())[name]
    code, key, shape = load_code(problem), new_master(), problem.shapes[0]
    oracle = Replayed(code.oracle)
    oracle.quiet = True
    for number in range(6):
        case = materialise(problem, shape, CaseSpec(f"n/{number}", "nominal", number), key, device="cuda", code=code)
        given = case.binding.init, case.inputs, case.state
        for one, right in zip(oracle(*given), code.oracle(*given), strict=True):
            assert torch.equal(one, right)
    assert (oracle._graph[1] is not None) == captured
    assert float(torch.ones(3, device="cuda").sum()) == 3.0, "what cannot be captured leaves the device usable"
