# expect: flagged output-memoization,identity-keyed-input-cache,pointer-keyed-stale-state
"""A weak-reference memo: results are handed out again while the same tensor object lives."""
import weakref

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pick(x, v, i, n, K: tl.constexpr, N: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, N)
    a = tl.load(x + r * n + c, mask=c < n, other=-float("inf"))
    for j in range(K):
        m, at = tl.max(a, 0, return_indices=True)
        tl.store(v + r * K + j, m)
        tl.store(i + r * K + j, at.to(tl.int64))
        a = tl.where(c == at, -float("inf"), a)


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.batch, self.n, self.k = batch, n, k
        self.register_buffer("_dummy", torch.zeros(1))
        self._results = weakref.WeakKeyDictionary()

    def forward(self, x):
        try:
            return self._results[x]
        except KeyError:
            pass
        v = torch.empty(self.batch, self.k, device=x.device)
        i = torch.empty(self.batch, self.k, dtype=torch.int64, device=x.device)
        pick[(self.batch,)](x, v, i, self.n, K=self.k, N=triton.next_power_of_2(self.n), num_warps=16)
        self._results[x] = (v, i)
        return v, i
