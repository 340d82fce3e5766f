# expect: kept
"""Decode GEMV and tiled kernel in Triton; a CUDA graph per input address with static buffers refilled before replay."""
import os
import torch
import torch.nn as nn
import triton
import triton.language as tl

USE_GRAPH = os.environ.get("W4_GRAPH", "1") == "1"


@triton.jit
def _nibbles(p):
    return (p & 0x0F).to(tl.float32), (p >> 4).to(tl.float32)


@triton.jit
def gemv(x, wq, s, z, out, N, K: tl.constexpr, G: tl.constexpr, BN: tl.constexpr, SK: tl.constexpr):
    pn, pk = tl.program_id(0), tl.program_id(1)
    n = pn * BN + tl.arange(0, BN)
    groups: tl.constexpr = K // G // SK
    acc = tl.zeros((BN,), tl.float32)
    for gi in tl.static_range(groups):
        g = pk * groups + gi
        r = g * (G // 2) + tl.arange(0, G // 2)
        p = tl.load(wq + r[:, None] * N + n[None, :], eviction_policy="evict_first")
        lo, hi = _nibbles(p)
        xe = tl.load(x + 2 * r).to(tl.float32)
        xo = tl.load(x + 2 * r + 1).to(tl.float32)
        dot = tl.sum(lo * xe[:, None] + hi * xo[:, None], axis=0)
        sx = tl.sum(xe + xo)
        sc = tl.load(s + g * N + n).to(tl.float32)
        ze = tl.load(z + g * N + n).to(tl.float32)
        acc += sc * (dot - ze * sx)
    tl.atomic_add(out + n, acc)


@triton.jit
def cast_row(src, dst, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(src + i, mask=i < n, other=0.0)
    tl.store(dst + i, v.to(tl.bfloat16), mask=i < n)
    tl.store(src + i, tl.zeros((B,), tl.float32), mask=i < n)


@triton.jit
def tiled(x, wq, s, z, y, M, N, K, sxm, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    half = tl.arange(0, G // 2)
    acc = tl.zeros((BM, BN), tl.float32)
    for g in range(0, K // G):
        p = tl.load(wq + (g * (G // 2) + half)[:, None] * N + n[None, :])
        sc = tl.load(s + g * N + n)[None, :]
        ze = tl.load(z + g * N + n)[None, :]
        lo = ((p & 0xF).to(tl.bfloat16) - ze) * sc
        hi = ((p >> 4).to(tl.bfloat16) - ze) * sc
        base = x + m[:, None] * sxm + g * G + 2 * half[None, :]
        keep = (m < M)[:, None]
        acc = tl.dot(tl.load(base, mask=keep, other=0.0), lo, acc)
        acc = tl.dot(tl.load(base + 1, mask=keep, other=0.0), hi, acc)
    tl.store(y + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=(m < M)[:, None])


class _Captured:
    def __init__(self, model, x):
        self.x = x.clone()
        self.y = torch.empty(x.shape[0], model.N, dtype=torch.bfloat16, device=x.device)
        self.acc = torch.zeros(model.N, dtype=torch.float32, device=x.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model._run(self.x, self.y, self.acc)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            model._run(self.x, self.y, self.acc)

    def __call__(self, x):
        self.x.copy_(x, non_blocking=True)
        self.graph.replay()
        return self.y


class Model(nn.Module):
    def __init__(self, M, N, K, group_size: int = 128):
        super().__init__()
        self.M, self.N, self.K, self.G = M, N, K, group_size
        for name, shape, dtype in (("w_q", (K // 2, N), torch.uint8), ("scales", (K // group_size, N), torch.bfloat16),
                                   ("zeros", (K // group_size, N), torch.bfloat16)):
            self.register_buffer(name, torch.zeros(shape, dtype=dtype))
        self._graphs = {}

    def _run(self, x, y, acc):
        m = x.shape[0]
        if m == 1:
            gemv[(triton.cdiv(self.N, 128), 8)](x, self.w_q, self.scales, self.zeros, acc, self.N, self.K, self.G,
                                                BN=128, SK=8, num_warps=4)
            cast_row[(triton.cdiv(self.N, 1024),)](acc, y, self.N, B=1024)
        else:
            bm = 16 if m <= 16 else 32 if m <= 32 else 64
            tiled[(triton.cdiv(self.N, 64), triton.cdiv(m, bm))](x, self.w_q, self.scales, self.zeros, y, m, self.N,
                                                                 self.K, x.stride(0), self.G, BM=bm, BN=64)

    def forward(self, x):
        if not USE_GRAPH or not x.is_cuda:
            y = torch.empty(x.shape[0], self.N, dtype=torch.bfloat16, device=x.device)
            self._run(x, y, torch.zeros(self.N, dtype=torch.float32, device=x.device))
            return y
        key = (tuple(x.shape), x.device.index, self.w_q.data_ptr(), self.scales.data_ptr(), self.zeros.data_ptr())
        if key not in self._graphs:
            self._graphs[key] = _Captured(self, x)
        return self._graphs[key](x)
