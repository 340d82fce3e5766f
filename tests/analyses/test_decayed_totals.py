"""A state that decays and goes on from chunk to chunk, kept in 16 bits or in fp32: between launches, or in a loop."""

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
def prep(q, k, v, g, beta, w_out, u_out, a_out, T, H, K: tl.constexpr, V: tl.constexpr, C: tl.constexpr):
    c, bh = tl.program_id(0), tl.program_id(1)
    b, h = bh // H, bh % H
    t = c * C + tl.arange(0, C)
    kk, vv = tl.arange(0, K), tl.arange(0, V)
    base = (b * T + t) * H + h
    G = tl.cumsum(tl.load(g + base[:, None] * K + kk[None, :]), axis=0)
    be = tl.load(beta + base).to(tl.float32)
    kx = tl.load(k + base[:, None] * K + kk[None, :]).to(tl.float32)
    qx = tl.load(q + base[:, None] * K + kk[None, :]).to(tl.float32) * (K ** -0.5)
    vx = tl.load(v + base[:, None] * V + vv[None, :]).to(tl.float32)
    ahead = (kx * tl.exp(G)).to(tl.bfloat16)
    behind = (kx * tl.exp(-G)).to(tl.bfloat16)
    i = tl.arange(0, C)
    L = tl.dot(ahead, tl.trans(behind)) * be[:, None]
    L = tl.where(i[:, None] > i[None, :], L, 0.0)
    X = tl.where(i[:, None] == i[None, :], 1.0, 0.0)
    for r in range(1, C):
        row = tl.sum(tl.where(i[:, None] == r, L, 0.0), axis=0)
        new = -tl.sum(row[:, None] * X, axis=0) + tl.where(i == r, 1.0, 0.0)
        X = tl.where(i[:, None] == r, new[None, :], X)
    Xb = X.to(tl.bfloat16)
    w = tl.dot(Xb, (ahead.to(tl.float32) * be[:, None]).to(tl.bfloat16))
    u = tl.dot(Xb, (vx * be[:, None]).to(tl.bfloat16))
    A = tl.dot((qx * tl.exp(G)).to(tl.bfloat16), tl.trans(behind))
    A = tl.where(i[:, None] >= i[None, :], A, 0.0)
    tl.store(w_out + base[:, None] * K + kk[None, :], w.to(tl.bfloat16))
    tl.store(u_out + base[:, None] * V + vv[None, :], u.to(tl.bfloat16))
    tl.store(a_out + base[:, None] * C + i[None, :], A.to(tl.bfloat16))

@triton.jit
def step(q, k, g, w, u, a, s, out, c, T, H, K: tl.constexpr, V: tl.constexpr, C: tl.constexpr, BV: tl.constexpr):
    bh = tl.program_id(0)
    b, h = bh // H, bh % H
    t = c * C + tl.arange(0, C)
    kk, vv = tl.arange(0, K), tl.program_id(1) * BV + tl.arange(0, BV)
    base = (b * T + t) * H + h
    i = tl.arange(0, C)
    at = s + bh * K * V + kk[:, None] * V + vv[None, :]
    BEGIN
    G = tl.cumsum(tl.load(g + base[:, None] * K + kk[None, :]), axis=0)
    last = tl.sum(tl.where(i[:, None] == C - 1, G, 0.0), axis=0)
    Sb = S.to(tl.bfloat16)
    wx = tl.load(w + base[:, None] * K + kk[None, :])
    fresh = tl.load(u + base[:, None] * V + vv[None, :]).to(tl.float32) - tl.dot(wx, Sb)
    kx = tl.load(k + base[:, None] * K + kk[None, :]).to(tl.float32)
    qx = tl.load(q + base[:, None] * K + kk[None, :]).to(tl.float32) * (K ** -0.5)
    fb = fresh.to(tl.bfloat16)
    o = tl.dot((qx * tl.exp(G)).to(tl.bfloat16), Sb)
    o += tl.dot(tl.load(a + base[:, None] * C + i[None, :]), fb)
    tl.store(out + base[:, None] * V + vv[None, :], o.to(tl.bfloat16))
    kept = (kx * tl.exp(last[None, :] - G)).to(tl.bfloat16)
    S = S * tl.exp(last)[:, None] + tl.dot(tl.trans(kept), fb)
    tl.store(at, S.to(s.dtype.element_ty))

class Model(nn.Module):
    def __init__(self, B, T, H, K, V, chunk_size):
        super().__init__()
        self.chunk = chunk_size
    def forward(self, q, k, v, g, beta):
        (B, T, H, K), V, C = q.shape, v.shape[-1], self.chunk
        e = lambda *n, dtype=torch.bfloat16: torch.empty(*n, dtype=dtype, device=q.device)
        w, u, a, out = e(B, T, H, K), e(B, T, H, V), e(B, T, H, C), e(B, T, H, V)
        s = torch.MAKE(B * H, K, V, dtype=torch.STATE, device=q.device)
        prep[(T // C, B * H)](q, k, v, g, beta, w, u, a, T, H, K, V, C)
        for c in range(T // C):
            step[(B * H, V // 64)](q, k, g, w, u, a, s, out, c, T, H, K, V, C, 64)
        return out
"""
BEGIN = {
    "zeroed before": ("S = tl.load(at).to(tl.float32)", "zeros"),
    "begun by a branch": (
        "S = tl.zeros((K, BV), dtype=tl.float32)\n    if c > 0:\n        S = tl.load(at).to(tl.float32)", "empty"
    ),
    "begun by a mask": ("S = tl.load(at, mask=(c > 0) & (kk[:, None] >= 0), other=0.0).to(tl.float32)", "empty"),
}  # fmt: skip


@pytest.mark.parametrize("way", BEGIN)
@pytest.mark.parametrize(("dtype", "rules"), [("bfloat16", ["KBH404"]), ("float32", [])])
def test_a_state_that_launches_hand_on_is_a_total(tmp_path: Path, way: str, dtype: str, rules: list[str]) -> None:
    begin, make = BEGIN[way]
    path = tmp_path / "solution.py"
    text = PROGRAM.replace("BEGIN", begin).replace("MAKE", make).replace("STATE", dtype)
    path.write_text(text, encoding="utf-8")
    (report,) = lint([path], problem="02_kda_cutlass").files
    assert [finding.rule for finding in report.findings] == rules
