"""Which axis of a grid counts the groups: the one that chooses the offsets that are read, not any as long."""

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
def tile(x, gate, up, out, offsets, H, I, E, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    columns = tl.program_id(COLUMNS) * BN + tl.arange(0, BN)
    FIND
    rows = first + tl.arange(0, BM)
    g = tl.zeros((BM, BN), tl.float32)
    u = tl.zeros((BM, BN), tl.float32)
    for k in range(0, H, BK):
        depth = k + tl.arange(0, BK)
        r = tl.load(x + rows[:, None] * H + depth[None, :], mask=(rows < last)[:, None], other=0.0)
        at = mine * H * I + depth[:, None] * I + columns[None, :]
        g = tl.dot(r, tl.load(gate + at), g)
        u = tl.dot(r, tl.load(up + at), u)
    y = (g * tl.sigmoid(g) * u).to(tl.bfloat16)
    tl.store(out + rows[:, None] * I + columns[None, :], y, mask=(rows < last)[:, None])


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states, expert_offsets):
        (rows, H), (E, _, I) = hidden_states.shape, self.W_gate.shape
        out = torch.empty(rows, I, dtype=torch.bfloat16, device=hidden_states.device)
        tile[GRID](hidden_states, self.W_gate, self.W_up, out, expert_offsets, H, I, E, BM=64, BN=64, BK=64)
        return out
"""
WALK = """program = tl.program_id(0)
    mine, first, last, seen = -1, 0, 0, 0
    for e in range(0, E):
        a = tl.load(offsets + e)
        b = tl.load(offsets + e + 1)
        tiles = (b - a + BM - 1) // BM
        take = (mine < 0) & (program < seen + tiles)
        mine = tl.where(take, e, mine)
        first = tl.where(take, a + (program - seen) * BM, first)
        last = tl.where(take, b, last)
        seen += tiles
    if mine < 0:
        return"""
GROUP = """mine = tl.program_id(1)
    first = tl.load(offsets + mine) + tl.program_id(0) * BM
    last = tl.load(offsets + mine + 1)
    if first >= last:
        return"""
# At one graded shape there are 64 groups, and 64 tiles of columns.
VARIANTS = {
    "tiles of all groups in a row": (WALK, "1", "(triton.cdiv(rows, 64) + E, I // 64)", True),
    "a group may have all rows": (GROUP, "2", "(triton.cdiv(rows, 64), E, I // 64)", True),
    "twice the average": (GROUP, "2", "(triton.cdiv(2 * rows, 64 * E), E, I // 64)", False),
    "no tile for the rests": (WALK, "1", "(triton.cdiv(rows, 64), I // 64)", False),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_grid_is_short_by_the_axis_that_chooses_the_group(tmp_path: Path, variant: str) -> None:
    find, columns, grid, enough = VARIANTS[variant]
    path = tmp_path / "solution.py"
    text = PROGRAM.replace("FIND", find).replace("COLUMNS", columns).replace("GRID", grid)
    path.write_text(text, encoding="utf-8")
    (report,) = lint([path], problem="06_sonic_moe_swiglu").files
    assert [finding.rule for finding in report.findings] == ([] if enough else ["KBH406"])
