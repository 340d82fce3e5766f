# expect: flagged output-memoization,identity-keyed-input-cache,pointer-keyed-stale-state
"""A correct kernel behind a cache keyed by where the input lies."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def arg_rounds(x, v, i, n, K: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    pv = float("inf")
    pi = -1
    for r in range(K):
        bv = tl.full((), -float("inf"), tl.float32)
        bi = tl.full((), 2147483647, tl.int32)
        for s in range(0, n, B):
            c = s + tl.arange(0, B)
            a = tl.load(x + row * n + c, mask=c < n, other=-float("inf"))
            ok = (a < pv) | ((a == pv) & (c > pi))
            a = tl.where(ok, a, -float("inf"))
            m = tl.max(a, 0)
            j = tl.argmax(a, 0) + s
            bi = tl.where(m > bv, j, bi)
            bv = tl.maximum(m, bv)
        tl.store(v + row * K + r, bv)
        tl.store(i + row * K + r, bi.to(tl.int64))
        pv = bv
        pi = bi


class _Memo:
    __slots__ = ("sig", "value")

    def __init__(self):
        self.sig = None
        self.value = None

    def fetch(self, sig, make):
        if sig != self.sig:
            self.value = make()
            self.sig = sig
        return self.value


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.batch, self.n, self.k = batch, n, k
        self.memo = _Memo()
        self.register_buffer("_dummy", torch.zeros(1))

    def _compute(self, x):
        v = torch.empty(self.batch, self.k, device=x.device)
        i = torch.empty(self.batch, self.k, dtype=torch.int64, device=x.device)
        arg_rounds[(self.batch,)](x, v, i, self.n, K=self.k, B=4096)
        return v, i

    def forward(self, x):
        return self.memo.fetch((x.data_ptr(), tuple(x.shape)), lambda: self._compute(x))
