"""A small problem in a folder of its own, for tests of the checker: y = x @ w with a ragged number of rows in use."""

from __future__ import annotations

from pathlib import Path

from kbh_lint.problems import Problem, load_problem

PROBLEM = """\
id: toy
title: A product of which only the first rows count
status: graded
regime: compute
precision: fp32
operation: y = x @ w for the first `used` rows, and zero below
flops: 2*M*N*K
bytes: 4*(M*K + K*N + M*N)
targets: [h200]
shapes:
  - {M: 64, N: 16, K: 32}
reduced:
  - {M: 8, N: 4, K: 6}
contracts:
  deck:
    init: {M: M, N: N, K: K}
    forward:
      - {name: x, dtype: f32, shape: [M, K], domain: {kind: normal, std: 1}}
      - {name: used, dtype: i64, shape: [1], domain: {kind: constant, value: M}}
    state:
      - {name: w, dtype: f32, shape: [K, N], domain: {kind: normal, std: 1}}
    output:
      - {dtype: f32, shape: [M, N]}
    compare: {metric: scaled, over: [-1]}
    tolerance: {f32: 1.0e-4}
promises:
  - id: authored-compute
    kind: authored-compute
    text: The product runs in a kernel of the submission.
    quantifier: every
    accepts: [kept]
    settled_by: [source]
    params: {work: product, inputs: [x]}
bans:
  - {symbol: torch.einsum, reason: It is the library's product.}
stress:
  - {id: large, scale: {x: 100}}
cases:
  - {id: ragged, text: Fewer rows are used than there are.}
"""

REFERENCE = """\
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return (x @ self.w) * (torch.arange(len(x), device=x.device) < used)[:, None]

def oracle(init, inputs, state):
    x = inputs["x"].double()
    rows = torch.arange(len(x), device=x.device) < inputs["used"]
    return ((x @ state["w"].double()) * rows[:, None],)
"""

CASES = """\
from hypothesis import strategies as st
from grader.structure import Structure

def apply(plan, symbols, inputs, state, generator):
    inputs["used"].fill_(plan["used"])

STRUCTURES = {
    "ragged": Structure(lambda s: st.integers(1, s["M"] - 1).map(lambda n: {"used": n}), apply)
}
"""

HONEST = REFERENCE.partition("def oracle")[0]


def toy_problem(folder: Path) -> Problem:
    """Writes the problem below `folder` and reads it."""
    here = folder / "toy"
    here.mkdir()
    for name, text in {"problem.yaml": PROBLEM, "reference.py": REFERENCE, "cases.py": CASES}.items():
        (here / name).write_text(text)
    return load_problem(here / "problem.yaml")


def solution(folder: Path, text: str, name: str = "solution.py") -> Path:
    """Writes a submission."""
    file = folder / name
    file.write_text(text)
    return file
