# expect: kept
"""Own autotuner with CUDA events on the first call of a shape; the winner is kept by (M, N, K); scratch in a WeakKeyDictionary."""
import itertools
import weakref
from collections import OrderedDict

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def body(X, Q, S, Z, P, M, N, K: tl.constexpr, GROUP: tl.constexpr, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    sp = tl.program_id(2)
    per: tl.constexpr = K // GROUP // SPLIT
    acc = tl.zeros((BM, BN), tl.float32)
    for i in tl.range(per, num_stages=3):
        g = sp * per + i
        kk = tl.arange(0, GROUP // 2)
        q = tl.load(Q + (g * (GROUP // 2) + kk)[:, None] * N + n[None, :]).to(tl.int32)
        sc = tl.load(S + g * N + n)
        ze = tl.load(Z + g * N + n)
        even = ((q & 0xF).to(tl.bfloat16) - ze[None, :]) * sc[None, :]
        odd = ((q >> 4) & 0xF).to(tl.bfloat16)
        odd = (odd - ze[None, :]) * sc[None, :]
        ptr = X + m[:, None] * K + g * GROUP + kk[None, :] * 2
        xe = tl.load(ptr, mask=m[:, None] < M, other=0.0)
        xo = tl.load(ptr + 1, mask=m[:, None] < M, other=0.0)
        acc = tl.dot(xe, even, acc)
        acc = tl.dot(xo, odd, acc)
    tl.store(P + sp * M * N + m[:, None] * N + n[None, :], acc, mask=m[:, None] < M)


@triton.jit
def collect(P, Y, total, SPLIT: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    acc = tl.zeros((B,), tl.float32)
    for s in tl.static_range(SPLIT):
        acc += tl.load(P + s * total + i, mask=i < total, other=0.0)
    tl.store(Y + i, acc.to(tl.bfloat16), mask=i < total)


class Tuner:
    def __init__(self, limit=32):
        self.best = OrderedDict()
        self.limit = limit

    @staticmethod
    def _space(m):
        bms = (16,) if m <= 16 else (32,) if m <= 32 else (32, 64)
        return [dict(BM=bm, BN=bn, SPLIT=sk, num_warps=nw) for bm, bn, sk, nw in itertools.product(bms, (64, 128), (1, 4, 8), (4, 8))]

    def _time(self, fn):
        fn()
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(5):
            fn()
        stop.record()
        torch.cuda.synchronize()
        return start.elapsed_time(stop)

    def get(self, key, run):
        if key in self.best:
            self.best.move_to_end(key)
            return self.best[key]
        best, best_ms = None, float("inf")
        for cfg in self._space(key[0]):
            try:
                ms = self._time(lambda: run(cfg))
            except Exception:
                continue
            if ms < best_ms:
                best, best_ms = cfg, ms
        self.best[key] = best
        if len(self.best) > self.limit:
            self.best.popitem(last=False)
        return best


_tuner = Tuner()
_scratch = weakref.WeakKeyDictionary()


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.group = group_size

    def _run(self, cfg, x, y):
        m, k = x.shape
        n = self.w_q.shape[1]
        pool = _scratch.setdefault(self, {})
        size = cfg["SPLIT"] * m * n
        if pool.get("n", 0) < size:
            pool["n"], pool["buf"] = size, torch.empty(size, dtype=torch.float32, device=x.device)
        part = pool["buf"]
        body[(triton.cdiv(n, cfg["BN"]), triton.cdiv(m, cfg["BM"]), cfg["SPLIT"])](
            x, self.w_q, self.scales, self.zeros, part, m, n, K=k, GROUP=self.group, **cfg)
        collect[(triton.cdiv(m * n, 1024),)](part, y, m * n, SPLIT=cfg["SPLIT"], B=1024)

    def forward(self, x):
        y = torch.empty((x.shape[0], self.w_q.shape[1]), dtype=torch.bfloat16, device=x.device)
        cfg = _tuner.get((x.shape[0], self.w_q.shape[1], x.shape[1]), lambda c: self._run(c, x, y))
        self._run(cfg, x, y)
        return y
