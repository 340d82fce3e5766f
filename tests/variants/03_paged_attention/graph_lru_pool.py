# expect: kept
"""Triton flash-decoding with CUDA graphs in a small LRU, keyed by every address that the graph reads."""
from collections import OrderedDict
from typing import NamedTuple

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _stage1(Q, KV, BT, SL, ACC, LSE, sq_b, sq_h, skv_p, skv_t, skv_h, sbt, scale,
            H: tl.constexpr, G: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
            BN: tl.constexpr, SPLITS: tl.constexpr):
    b, hk, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    n = tl.load(SL + b)
    per = tl.cdiv(tl.cdiv(n, SPLITS), BN) * BN
    lo = s * per
    hi = tl.minimum(lo + per, n)
    g = tl.arange(0, GP)
    d = tl.arange(0, D)
    q = tl.load(Q + b * sq_b + (hk * G + g)[:, None] * sq_h + d[None, :], mask=(g < G)[:, None], other=0.0)
    m = tl.full([GP], float("-inf"), tl.float32)
    l = tl.zeros([GP], tl.float32)
    acc = tl.zeros([GP, D], tl.float32)
    for start in range(lo, hi, BN):
        t = start + tl.arange(0, BN)
        ok = t < hi
        page = tl.load(BT + b * sbt + t // PAGE, mask=ok, other=0).to(tl.int64)
        at = page * skv_p + (t % PAGE) * skv_t + hk * skv_h
        k = tl.load(KV + at[None, :] + d[:, None], mask=ok[None, :], other=0.0)
        v = tl.load(KV + at[:, None] + D + d[None, :], mask=ok[:, None], other=0.0)
        w = tl.dot(q, k) * scale
        w = tl.where(ok[None, :], w, float("-inf"))
        mn = tl.maximum(m, tl.max(w, 1))
        alpha = tl.math.exp2(m - mn)
        p = tl.math.exp2(w - mn[:, None])
        l = l * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = mn
    row = (b * H + hk * G + g) * SPLITS + s
    tl.store(ACC + row[:, None] * D + d[None, :], acc / l[:, None], mask=(g < G)[:, None])
    tl.store(LSE + row, m + tl.math.log2(l), mask=g < G)


@triton.jit
def _stage2(ACC, LSE, O, D: tl.constexpr, SPLITS: tl.constexpr):
    r = tl.program_id(0)
    s = tl.arange(0, SPLITS)
    d = tl.arange(0, D)
    lse = tl.load(LSE + r * SPLITS + s)
    w = tl.math.exp2(lse - tl.max(lse, 0))
    part = tl.load(ACC + (r * SPLITS + s)[:, None] * D + d[None, :])
    part = tl.where(w[:, None] > 0, part, 0.0)
    tl.store(O + r * D + d, (tl.sum(part * w[:, None], 0) / tl.sum(w, 0)).to(O.dtype.element_ty))


class Captured(NamedTuple):
    graph: torch.cuda.CUDAGraph
    out: torch.Tensor


class Model(nn.Module):
    LIMIT = 16

    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()
        self.cfg = dict(H=num_heads, G=num_heads // num_kv_heads, D=head_dim, PAGE=page_size)
        self.hkv = num_kv_heads
        self.splits = triton.next_power_of_2(max(1, min(32, 1056 // (batch * num_kv_heads))))
        self.scale = 1.4426950408889634 * head_dim**-0.5
        self.register_buffer("_dummy", torch.zeros(1, dtype=torch.bfloat16), persistent=False)
        self._graphs: "OrderedDict[tuple, Captured]" = OrderedDict()

    def _launch(self, q, kv, bt, sl):
        B, H, D = q.shape
        c = self.cfg
        acc = torch.empty(B, H, self.splits, D, device=q.device, dtype=torch.float32)
        lse = torch.empty(B, H, self.splits, device=q.device, dtype=torch.float32)
        out = torch.empty_like(q)
        _stage1[(B, self.hkv, self.splits)](
            q, kv, bt, sl, acc, lse, q.stride(0), q.stride(1), *kv.stride()[:3], bt.stride(0), self.scale,
            GP=max(16, triton.next_power_of_2(c["G"])), BN=64, SPLITS=self.splits, num_warps=4, num_stages=3, **c,
        )
        _stage2[(B * H,)](acc, lse, out, D=D, SPLITS=self.splits, num_warps=2)
        return out

    def forward(self, query, kv_cache, block_table, seq_lens):
        tensors = (query, kv_cache, block_table, seq_lens)
        key = tuple((t.data_ptr(), tuple(t.shape), t.stride()) for t in tensors)
        hit = self._graphs.get(key)
        if hit is None:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self._launch(*tensors)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = self._launch(*tensors)
            hit = self._graphs[key] = Captured(graph, out)
            while len(self._graphs) > self.LIMIT:
                self._graphs.popitem(last=False)
        else:
            self._graphs.move_to_end(key)
        hit.graph.replay()
        return hit.out
