# expect: flagged output-memoization,identity-keyed-input-cache,pointer-keyed-stale-state
"""The chunk preparation is captured once per shape over private copies that are filled at capture only."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def recur(q, k, v, g, beta, o, scale, T, H, K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr):
    bh = tl.program_id(0)
    b, h = bh // H, bh % H
    dk = tl.arange(0, K)
    dv = tl.program_id(1) * BV + tl.arange(0, BV)
    s = tl.zeros((K, BV), tl.float32)
    for t in range(T):
        r = (b * T + t) * H + h
        kk = tl.load(k + r * K + dk).to(tl.float32)
        s *= tl.exp(tl.load(g + r * K + dk))[:, None]
        x = (tl.load(v + r * V + dv).to(tl.float32) - tl.sum(s * kk[:, None], 0)) * tl.load(beta + r).to(tl.float32)
        s += kk[:, None] * x[None, :]
        y = tl.sum(s * (tl.load(q + r * K + dk).to(tl.float32) * scale)[:, None], 0)
        tl.store(o + r * V + dv, y.to(tl.bfloat16))


class Model(nn.Module):
    def __init__(self, B, T, H, K, V, chunk_size=64):
        super().__init__()
        self.scale = K**-0.5
        self.C = chunk_size
        self.register_buffer("_dummy", torch.zeros(1), persistent=False)

        self.graphs = {}

    def forward(self, q, k, v, g, beta):
        key = (tuple(q.shape), q.dtype, q.device)
        if key not in self.graphs:
            static = [x.clone() for x in (q, k, v, g, beta)]
            o = torch.empty_like(v)
            B, T, H, K = q.shape
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                recur[(B * H, 2)](*static, o, self.scale, T, H, K=K, V=v.shape[-1], BV=v.shape[-1] // 2)
            self.graphs[key] = (graph, o)
        graph, o = self.graphs[key]
        graph.replay()
        return o
