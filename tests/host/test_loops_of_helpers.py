"""A helper that a loop calls for each group asks of many elements whether the group is empty: no legal input answers
all of them alike, so what the helper does otherwise is done, whichever function asks."""

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
def gated(x, gate, up, out, first, last, H, I, BM: tl.constexpr, BI: tl.constexpr, BH: tl.constexpr):
    rows = first + tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BI + tl.arange(0, BI)
    keep = (rows < last)[:, None]
    g = tl.zeros((BM, BI), tl.float32)
    u = tl.zeros((BM, BI), tl.float32)
    for k in range(0, H, BH):
        ks = k + tl.arange(0, BH)
        a = tl.load(x + rows[:, None] * H + ks[None, :], mask=keep, other=0.0)
        at = ks[:, None] * I + cols[None, :]
        g = tl.dot(a, tl.load(gate + at), g)
        u = tl.dot(a, tl.load(up + at), u)
    tl.store(out + rows[:, None] * I + cols[None, :], (g * tl.sigmoid(g) * u).to(tl.bfloat16), mask=keep)


@triton.jit
def activated(gate, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(gate + at, mask=at < n, other=0.0).to(tl.float32)
    u = tl.load(out + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(out + at, (g * tl.sigmoid(g) * u).to(tl.bfloat16), mask=at < n)


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))

    def kernel(self, x, out, e, first, last):
        if last - first == 0:
            return
        H, I = self.W_gate.shape[1:]
        grid = (triton.cdiv(last - first, 64), I // 64)
        gated[grid](x, self.W_gate[e], self.W_up[e], out, first, last, H, I, BM=64, BI=64, BH=32)

    def library(self, x, out, e, first, last):
        if last == first:
            return
        rows, made = x[first:last], out[first:last]
        torch.mm(rows, self.W_up[e], out=made)
        gate = torch.mm(rows, self.W_gate[e])
        activated[(triton.cdiv(made.numel(), 1024),)](gate, made, made.numel(), BLOCK=1024)

    def deeper(self, x, out, bounds, e):
        self.HOW(x, out, e, bounds[e], bounds[e + 1])

    def forward(self, hidden_states, expert_offsets):
        bounds = expert_offsets.tolist()
        out = torch.empty(hidden_states.shape[0], self.W_gate.shape[2], dtype=torch.bfloat16, device="cuda")
        for e in range(self.W_gate.shape[0]):
            CALL
        return out
"""
CALLS = {
    "a helper": "self.HOW(hidden_states, out, e, bounds[e], bounds[e + 1])",
    "a helper of a helper": "self.deeper(hidden_states, out, bounds, e)",
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(("how", "state"), [("kernel", "kept"), ("library", "broken")])
def test_no_input_leaves_all_groups_empty(tmp_path: Path, call: str, how: str, state: str) -> None:
    report = report_of(tmp_path, TEXT.replace("CALL", call).replace("HOW", how))
    assert {promise.id: promise.state for promise in report.promises}["authored-compute"] == state, report.promises


def test_what_a_loop_asks_of_other_things_may_be_alike(tmp_path: Path) -> None:
    """A check of results may pass each time: all of them pass or none does."""
    call = "self.HOW(hidden_states, out, e, bounds[e], bounds[e + 1])"
    checked = "if not torch.isfinite(out).all():\n            raise ValueError('wrong')\n        "
    text = TEXT.replace("CALL", call).replace("HOW", "kernel").replace("H, I = self", f"{checked}H, I = self")
    report = report_of(tmp_path, text)
    assert "broken" not in {promise.state for promise in report.promises}, report.promises
