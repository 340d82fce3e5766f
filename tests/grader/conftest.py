"""A small problem of its own, so that the tests of the machinery do not move with the deck."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from ground import Ground

from grader.deck.code import Code, load_code
from kbh_lint.problems import Problem, load_problem

YAML = """
id: 99_sample
title: Sample
status: graded
regime: memory
precision: bf16
operation: rows of x times the table, cut off at lengths
flops: rows*n
bytes: 4*rows*n
work: elementwise
targets: [h200]
shapes:
  - {rows: 64, n: 256, flag: false}
  - {rows: 32, n: 512, flag: true}
reduced:
  - {rows: 6, n: 16, flag: false}
  - {rows: 5, n: 24, flag: true}
contracts:
  deck:
    init: {n: n}
    forward:
      - name: x
        dtype: bf16
        shape: [rows, n]
        domain:
          kind: when
          symbol: flag
          then: {kind: normal, std: 2, spikes: {count: 3, value: 30}}
          else: {kind: normal, std: 1}
      - {name: lengths, dtype: i32, shape: [rows], domain: {kind: constant, value: n}}
    state:
      - {name: table, dtype: bf16, shape: [n], domain: {kind: uniform, low: 1, high: 2}}
    output:
      - {dtype: bf16, shape: [rows, n]}
    compare: {metric: scaled, over: [1]}
    tolerance: {bf16: 0.01}
promises: []
stress:
  - {id: large, scale: {x: 64}}
  - {id: small-table, scale: {table: 0.01}, tolerance: {bf16: 0.02}}
cases:
  - {id: ragged, text: Lengths of all kinds., tolerance: {bf16: 0.5}}
  - {id: late, text: The last columns dominate.}
  - {id: flat-table, text: The table is one value.}
"""

REFERENCE = """
import torch
from ground import Ground
from torch import nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("table", torch.zeros(n, dtype=torch.bfloat16))

    def forward(self, x, lengths):
        return (oracle({}, {"x": x, "lengths": lengths}, {"table": self.table})[0]).to(torch.bfloat16)


def oracle(init, inputs, state):
    keep = torch.arange(inputs["x"].shape[1]) < inputs["lengths"][:, None]
    return (torch.where(keep, inputs["x"].double() * state["table"].double(), 0.0),)
"""

CASES = """
import torch
from ground import Ground
from hypothesis import strategies as st

from grader.deck.structure import Region, Structure

from .reference import oracle


def lengths(symbols):
    size = st.integers(1, symbols["n"])
    return st.fixed_dictionaries({"lengths": st.lists(size, min_size=symbols["rows"], max_size=symbols["rows"])})


def ragged(plan, symbols, inputs, state, generator):
    inputs["lengths"] = torch.tensor(plan["lengths"], dtype=torch.int32, device=inputs["x"].device)
    keep = torch.arange(symbols["n"], device=inputs["x"].device) < inputs["lengths"][:, None]
    return Region(keep, "element")


def late(plan, symbols, inputs, state, generator):
    inputs["x"][:, -plan["columns"] :] *= 16


def flat(plan, symbols, inputs, state, generator):
    state["table"].fill_(plan["value"])


STRUCTURES = {
    "ragged": Structure(lengths, ragged),
    "late": Structure(lambda symbols: st.fixed_dictionaries({"columns": st.integers(1, 8)}), late),
    "flat-table": Structure(
        lambda symbols: st.fixed_dictionaries({"value": st.integers(1, 9)}), flat, changes_state=True
    ),
}
"""


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deck") / "99_sample"
    folder.mkdir()
    (folder / "problem.yaml").write_text(YAML)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "cases.py").write_text(CASES)
    return folder


@pytest.fixture(scope="session")
def sample(sample_folder: Path) -> Problem:
    return load_problem(sample_folder / "problem.yaml")


@pytest.fixture(scope="session")
def sample_code(sample: Problem) -> Code:
    return load_code(sample)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two cores are shared by parallel test runs, and the tensors are small."""
    torch.set_num_threads(1)


@pytest.fixture
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Ground]:
    cold = request.node.get_closest_marker("cold") is not None
    return lambda text: Ground(tmp_path, text, cold)
