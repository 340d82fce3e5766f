# expect: flagged output-memoization
"""A graph captured on the first input is replayed without refilling: the second call answers the first question."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def g4(x, q, s, z, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    r = tl.arange(0, 64)
    acc = tl.zeros((BM, BN), tl.float32)
    for g in range(K // 128):
        p = tl.load(q + (g * 64 + r)[:, None] * N + n[None, :])
        sc, ze = tl.load(s + g * N + n)[None, :], tl.load(z + g * N + n)[None, :]
        xp = x + m[:, None] * K + (g * 128 + 2 * r)[None, :]
        acc = tl.dot(tl.load(xp, mask=(m < M)[:, None], other=0.0), ((p & 15).to(tl.bfloat16) - ze) * sc, acc)
        acc = tl.dot(tl.load(xp + 1, mask=(m < M)[:, None], other=0.0), ((p >> 4).to(tl.bfloat16) - ze) * sc, acc)
    tl.store(y + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=(m < M)[:, None])


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self._done = {}

    def _launch(self, x):
        m, k = x.shape
        n = self.w_q.shape[1]
        y = torch.empty(m, n, dtype=torch.bfloat16, device=x.device)
        g4[(n // 64, triton.cdiv(m, 16))](x, self.w_q, self.scales, self.zeros, y, m, n, k, BM=16, BN=64)
        return y

    def forward(self, x):
        if x.shape not in self._done:
            self._done[x.shape] = self._launch(x)
        return self._done[x.shape]
