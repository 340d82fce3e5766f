"""Submissions of 06_sonic_moe_swiglu in Triton: what the tests of groups and offsets share of them."""

from __future__ import annotations

from pathlib import Path

from linted import report_of

from kbh_lint.findings import FileReport

# gate and up of one tile: `rows` of `expert`, where `keep`.
PRODUCT = """
@triton.jit
def product(x, gate, up, y, rows, keep, cols, expert, H, I, B: tl.constexpr):
    g = tl.zeros((B, B), dtype=tl.float32)
    u = tl.zeros((B, B), dtype=tl.float32)
    for k in range(0, H, B):
        depth = k + tl.arange(0, B)
        a = tl.load(x + rows[:, None] * H + depth[None, :], mask=keep[:, None], other=0.0)
        at = (expert * H + depth)[:, None] * I + cols[None, :]
        g = tl.dot(a, tl.load(gate + at), g)
        u = tl.dot(a, tl.load(up + at), u)
    out = (g * tl.sigmoid(g) * u).to(tl.bfloat16)
    tl.store(y + rows[:, None] * I + cols[None, :], out, mask=keep[:, None])
"""
WEIGHTS = """
class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
"""
_HEAD = """# kbh: problem=06_sonic_moe_swiglu
import torch
import torch.nn as nn
import triton
import triton.language as tl

"""
_FORWARD = """
    def forward(self, hidden_states, expert_offsets):
        E, H, I = self.W_gate.shape
        rows, B = hidden_states.shape[0], 64
        weights = self.W_gate, self.W_up
        y = torch.zeros(rows, I, dtype=torch.bfloat16, device=hidden_states.device)
"""


def program(kernels: str, forward: str) -> str:
    """A submission: kernels, which may call `product`, and the lines of `forward` between its sizes, for which it has
    names, and the return of `y`."""
    lines = "".join(f"        {line}\n" for line in forward.strip().splitlines())
    return f"{_HEAD}{PRODUCT}\n{kernels}\n{WEIGHTS}{_FORWARD}{lines}        return y\n"


def states(report: FileReport) -> set[str]:
    """What became of the promise that offsets are read."""
    return {str(promise.state) for promise in report.promises if promise.id == "ragged-offsets"}


def leaks(folder: Path, text: str) -> tuple[list[str], set[str]]:
    """What a submission of this text is told of, and what becomes of the promise that offsets are read."""
    report = report_of(folder, text)
    return [finding.message for finding in report.findings if finding.verdict == "rubric_leak"], states(report)
