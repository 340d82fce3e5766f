"""Asserts about the structure of inputs: what all legal inputs pass is harmless, equal parts are an assumption."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

PROGRAM = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def swiglu(x, gate, up, offsets, y, H, I, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    expert = tl.program_id(0)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    last = tl.load(offsets + expert + 1)
    for first in range(tl.load(offsets + expert), last, BM):
        rows = first + tl.arange(0, BM)
        keep = (rows < last)[:, None]
        g = tl.zeros((BM, BN), dtype=tl.float32)
        u = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, H, BK):
            depth = k + tl.arange(0, BK)
            a = tl.load(x + rows[:, None] * H + depth[None, :], mask=keep, other=0.0)
            at = (expert * H + depth)[:, None] * I + cols[None, :]
            g = tl.dot(a, tl.load(gate + at), g)
            u = tl.dot(a, tl.load(up + at), u)
        tl.store(y + rows[:, None] * I + cols[None, :], (g * tl.sigmoid(g) * u).to(tl.bfloat16), mask=keep)


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states, expert_offsets):
        E, H, I = self.W_gate.shape
        rows = hidden_states.shape[0]
        sizes = expert_offsets[1:] - expert_offsets[:-1]
        CHECK
        y = torch.empty(rows, I, dtype=torch.bfloat16, device=hidden_states.device)
        weights = self.W_gate, self.W_up
        swiglu[(E, I // 128)](hidden_states, *weights, expert_offsets, y, H, I, BM=64, BN=128, BK=64)
        return y
"""
CHECKS = {
    "no part is less than nothing": ("assert bool((sizes >= 0).all())", []),
    "all rows belong to a part": ("assert int(expert_offsets[-1]) == rows and int(expert_offsets[0]) == 0", []),
    "the parts are as large as the first": ("assert bool((sizes == int(sizes[0])).all())", ["KBH401"]),
    "the parts are a share each": ("assert torch.all(sizes == rows // E)", ["KBH401"]),
}


@pytest.mark.parametrize("check", CHECKS)
def test_an_assert_that_only_equal_parts_pass_breaks_the_promise(tmp_path: Path, check: str) -> None:
    line, rules = CHECKS[check]
    path = tmp_path / "solution.py"
    path.write_text(PROGRAM.replace("CHECK", line), encoding="utf-8")
    (report,) = lint([path], problem="06_sonic_moe_swiglu").files
    states = {promise.id: promise.state for promise in report.promises}
    assert [finding.rule for finding in report.findings] == rules
    assert states["ragged-offsets"] == ("broken" if rules else "kept")
