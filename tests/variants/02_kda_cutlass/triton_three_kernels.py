# expect: kept
"""Chunked delta rule: decay scan in the kernel, inverse by doubling with tl.dot, then one scan over the chunks."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def prepare(q, k, v, g, beta, qd, kd, u, w, aqk, last, scale, T, H, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n, bh = tl.program_id(0), tl.program_id(1)
    b, h = bh // H, bh % H
    t = n * C + tl.arange(0, C)
    dk, dv, c = tl.arange(0, K), tl.arange(0, V), tl.arange(0, C)
    row = (b * T + t) * H + h
    gc = tl.cumsum(tl.load(g + row[:, None] * K + dk[None, :]), 0)
    kk = tl.load(k + row[:, None] * K + dk[None, :]).to(tl.float32)
    qq = tl.load(q + row[:, None] * K + dk[None, :]).to(tl.float32) * scale
    vv = tl.load(v + row[:, None] * V + dv[None, :])
    be = tl.load(beta + row).to(tl.float32)
    up, down = tl.exp(gc), tl.exp(-gc)
    ka = (kk * up).to(tl.bfloat16)
    kb = (kk * down).to(tl.bfloat16)
    qa = (qq * up).to(tl.bfloat16)
    lower = c[:, None] > c[None, :]
    m = -tl.where(lower, tl.dot(ka, tl.trans(kb)) * be[:, None], 0.0)
    inv = tl.where(c[:, None] == c[None, :], 1.0, 0.0) + m
    p = m
    for _ in tl.static_range(5):
        p = tl.dot(p, p, input_precision="tf32")
        inv += tl.dot(inv, p, input_precision="tf32")
    inv = (inv * be[None, :]).to(tl.bfloat16)
    at = (bh * (T // C) + n) * C
    tl.store(u + (at + c)[:, None] * V + dv[None, :], tl.dot(inv, vv))
    tl.store(w + (at + c)[:, None] * K + dk[None, :], tl.dot(inv, ka).to(tl.bfloat16))
    keep = c[:, None] >= c[None, :]
    tl.store(aqk + (at + c)[:, None] * C + c[None, :], tl.where(keep, tl.dot(qa, tl.trans(kb)), 0.0).to(tl.bfloat16))
    end = tl.sum(tl.where((c == C - 1)[:, None], gc, 0.0), 0)
    tl.store(qd + (at + c)[:, None] * K + dk[None, :], qa)
    tl.store(kd + (at + c)[:, None] * K + dk[None, :], (kk * tl.exp(end[None, :] - gc)).to(tl.bfloat16))
    tl.store(last + (bh * (T // C) + n) * K + dk, tl.exp(end))


@triton.jit
def scan(qd, kd, u, w, aqk, last, o, T, H, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr):
    bh, vb = tl.program_id(0), tl.program_id(1)
    dv = vb * BV + tl.arange(0, BV)
    dk, c = tl.arange(0, K), tl.arange(0, C)
    s = tl.zeros((K, BV), tl.float32)
    for n in range(T // C):
        at = ((bh * (T // C) + n) * C + c)[:, None]
        sb = s.to(tl.bfloat16)
        fresh = tl.load(u + at * V + dv[None, :]) - tl.dot(tl.load(w + at * K + dk[None, :]), sb)
        fb = fresh.to(tl.bfloat16)
        y = tl.dot(tl.load(qd + at * K + dk[None, :]), sb) + tl.dot(tl.load(aqk + at * C + c[None, :]), fb)
        row = ((bh // H) * T + n * C + c) * H + bh % H
        tl.store(o + row[:, None] * V + dv[None, :], y.to(tl.bfloat16))
        decay = tl.load(last + (bh * (T // C) + n) * K + dk)
        s = s * decay[:, None] + tl.dot(tl.trans(tl.load(kd + at * K + dk[None, :])), fb)


class Model(nn.Module):
    def __init__(self, B, T, H, K, V, chunk_size=64):
        super().__init__()
        self.scale = K**-0.5
        self.C = chunk_size
        self.register_buffer("_dummy", torch.zeros(1), persistent=False)

    def forward(self, q, k, v, g, beta):
        B, T, H, K = q.shape
        V, C = v.shape[-1], self.C
        half = lambda *s: torch.empty(*s, dtype=torch.bfloat16, device=q.device)
        rows = B * H * T
        qd, kd, w, aqk = half(rows, K), half(rows, K), half(rows, K), half(rows, C)
        u = torch.empty(rows, V, dtype=torch.float32, device=q.device)
        last = torch.empty(rows // C, K, dtype=torch.float32, device=q.device)
        prepare[(T // C, B * H)](q, k, v, g, beta, qd, kd, u, w, aqk, last, self.scale, T, H, C=C, K=K, V=V, num_warps=8)
        o = torch.empty_like(v)
        scan[(B * H, V // 32)](qd, kd, u, w, aqk, last, o, T, H, C=C, K=K, V=V, BV=32, num_warps=4)
        return o
