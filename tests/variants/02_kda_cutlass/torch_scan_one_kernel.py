# expect: kept
"""Torch does the scan of g and the layout; one kernel a head does the rest, solving row by row."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def whole(q, k, v, gc, beta, o, scale, T, H, C: tl.constexpr, K: tl.constexpr, BV: tl.constexpr, V: tl.constexpr):
    bh = tl.program_id(0)
    b, h = bh // H, bh % H
    dk = tl.arange(0, K)
    dv = tl.program_id(1) * BV + tl.arange(0, BV)
    c = tl.arange(0, C)
    s = tl.zeros((K, BV), tl.float32)
    for n in range(T // C):
        row = (b * T + n * C + c) * H + h
        kk = tl.load(k + row[:, None] * K + dk[None, :]).to(tl.float32)
        qq = tl.load(q + row[:, None] * K + dk[None, :]).to(tl.float32) * scale
        gg = tl.load(gc + row[:, None] * K + dk[None, :])
        be = tl.load(beta + row).to(tl.float32)
        vv = tl.load(v + row[:, None] * V + dv[None, :]).to(tl.float32)
        ka, kb, qa = (kk * tl.exp(gg)).to(tl.bfloat16), (kk * tl.exp(-gg)).to(tl.bfloat16), (qq * tl.exp(gg)).to(tl.bfloat16)
        a = tl.where(c[:, None] > c[None, :], tl.dot(ka, tl.trans(kb)) * be[:, None], 0.0)
        x = (vv - tl.dot(ka, s.to(tl.bfloat16))) * be[:, None]
        for i in range(1, C):
            ai = tl.sum(tl.where((c == i)[:, None], a, 0.0), 0)
            xi = tl.sum(ai[:, None] * x, 0)
            x = tl.where((c == i)[:, None], x - xi[None, :], x)
        xb = x.to(tl.bfloat16)
        sc = tl.where(c[:, None] >= c[None, :], tl.dot(qa, tl.trans(kb)), 0.0).to(tl.bfloat16)
        y = tl.dot(qa, s.to(tl.bfloat16)) + tl.dot(sc, xb)
        tl.store(o + row[:, None] * V + dv[None, :], y.to(tl.bfloat16))
        end = tl.sum(tl.where((c == C - 1)[:, None], gg, 0.0), 0)
        s = s * tl.exp(end)[:, None] + tl.dot(tl.trans((kk * tl.exp(end[None, :] - gg)).to(tl.bfloat16)), xb)


class Model(nn.Module):
    def __init__(self, B, T, H, K, V, chunk_size=64):
        super().__init__()
        self.scale = K**-0.5
        self.C = chunk_size
        self.register_buffer("_dummy", torch.zeros(1), persistent=False)

    def forward(self, q, k, v, g, beta):
        B, T, H, K = q.shape
        V = v.shape[-1]
        gc = g.view(B, T // self.C, self.C, H, K).cumsum(2).view_as(g)
        o = torch.empty_like(v)
        whole[(B * H, V // 64)](q, k, v, gc, beta, o, self.scale, T, H, C=self.C, K=K, BV=64, V=V, num_warps=4)
        return o
