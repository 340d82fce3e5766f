"""Plans that take a group of one row for an empty one, so that its row is never computed, and plans that do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

TEXT = """# kbh: problem=06_sonic_moe_swiglu
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def plan(offsets, owner, begins, ends, count, E: tl.constexpr, EP: tl.constexpr, B: tl.constexpr):
    e = tl.program_id(0)
    i = tl.arange(0, EP)
    low = tl.load(offsets + i, mask=i < E, other=0)
    high = tl.load(offsets + i + 1, mask=i < E, other=0)
    rows = high - low
    tiles = TILES
    tiles = tl.where(i < E, tiles, 0)
    before = tl.sum(tl.where(i < e, tiles, 0), 0)
    mine = tl.sum(tl.where(i == e, tiles, 0), 0)
    begin, end = tl.load(offsets + e), tl.load(offsets + e + 1)
    for t in range(0, mine):
        tl.store(owner + before + t, e)
        tl.store(begins + before + t, begin + t * B)
        tl.store(ends + before + t, end)
    if e == E - 1:
        tl.store(count, before + mine)


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


@triton.jit
def swiglu(x, gate, up, owner, begins, ends, count, y, H, I, B: tl.constexpr):
    tile = tl.program_id(0)
    if tile < tl.load(count):
        rows = tl.load(begins + tile) + tl.arange(0, B)
        cols = tl.program_id(1) * B + tl.arange(0, B)
        product(x, gate, up, y, rows, rows < tl.load(ends + tile), cols, tl.load(owner + tile), H, I, B)


@triton.jit
def rest(x, gate, up, offsets, y, H, I, B: tl.constexpr):
    expert = tl.program_id(0)
    end = tl.load(offsets + expert + 1)
    rows = end - (end - tl.load(offsets + expert)) % B + tl.arange(0, B)
    cols = tl.program_id(1) * B + tl.arange(0, B)
    product(x, gate, up, y, rows, rows < end, cols, expert, H, I, B)


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states, expert_offsets):
        E, H, I = self.W_gate.shape
        rows, B = hidden_states.shape[0], 64
        most = triton.cdiv(rows, B) + E
        lists = [torch.empty(n, dtype=torch.int32, device=hidden_states.device) for n in (most, most, most, 1)]
        y = torch.zeros(rows, I, dtype=torch.bfloat16, device=hidden_states.device)
        plan[(E,)](expert_offsets, *lists, E=E, EP=triton.next_power_of_2(E), B=B)
        weights = self.W_gate, self.W_up
        swiglu[(most, I // B)](hidden_states, *weights, *lists, y, H, I, B=B)
        LAST
        return y
"""
REST = "rest[(E, I // B)](hidden_states, *weights, expert_offsets, y, H, I, B=B)"
WHOLE = "rows // B"
UNSEEN = {
    "whole tiles": (WHOLE, "pass"),
    "whole tiles by a shift": ("rows >> 6", "pass"),
    "experts with few rows": ("tl.where(rows >= 16, tl.cdiv(rows, B), 0)", "pass"),
    "rounded to the nearest": ("(rows + B // 2) // B", "pass"),
}
SEEN = {
    "all tiles": ("tl.cdiv(rows, B)", "pass"),
    "one tile more where rows are left": ("rows // B + (rows % B > 0).to(tl.int32)", "pass"),
    "one tile more than there may be": ("rows // B + 1", "pass"),
    "whole tiles, and the rest elsewhere": (WHOLE, REST),
    "experts without rows": ("tl.where(rows > 0, tl.cdiv(rows, B), 0)", "pass"),
}


def linted(tmp_path: Path, tiles: str, last: str) -> tuple[str, list[str], set[str]]:
    report = report_of(tmp_path, TEXT.replace("TILES", tiles).replace("LAST", last))
    states = {p.state for p in report.promises if p.id == "ragged-offsets"}
    return report.verdict, [finding.message for finding in report.findings], states


@pytest.mark.parametrize("how", UNSEEN)
def test_a_plan_that_takes_one_row_for_none_is_told(tmp_path: Path, how: str) -> None:
    verdict, found, states = linted(tmp_path, *UNSEEN[how])
    assert (verdict, states) == ("rubric_leak", {"broken"}) and any("a group of one row" in one for one in found), found


@pytest.mark.parametrize("how", SEEN)
def test_a_plan_with_a_tile_for_one_row_is_none(tmp_path: Path, how: str) -> None:
    _, found, states = linted(tmp_path, *SEEN[how])
    assert states == {"kept"} and not found, found
