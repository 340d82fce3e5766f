# expect: flagged preunpacked-int4
"""Nibbles widened to one byte each on the first call; the kernel multiplies bytes, twice the traffic the problem allows."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def byte_gemm(x, q, s, z, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        kk = k + tl.arange(0, BK)
        b = tl.load(q + kk[:, None] * N + n[None, :]).to(tl.bfloat16)
        g = k // 128
        b = (b - tl.load(z + g * N + n)[None, :]) * tl.load(s + g * N + n)[None, :]
        acc = tl.dot(tl.load(x + m[:, None] * K + kk[None, :], mask=(m < M)[:, None], other=0.0), b, acc)
    tl.store(y + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=(m < M)[:, None])


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self._bytes = None
        self._ver = None

    def forward(self, x):
        if self._ver != self.w_q._version:
            k2, n = self.w_q.shape
            wide = torch.empty((k2, 2, n), dtype=torch.uint8, device=x.device)
            torch.bitwise_and(self.w_q, 15, out=wide[:, 0])
            torch.bitwise_right_shift(self.w_q, 4, out=wide[:, 1])
            self._bytes, self._ver = wide.view(2 * k2, n), self.w_q._version
        m, k = x.shape
        n = self._bytes.shape[1]
        y = torch.empty(m, n, dtype=torch.bfloat16, device=x.device)
        byte_gemm[(triton.cdiv(m, 16), n // 64)](x, self._bytes, self.scales, self.zeros, y, m, n, k, BM=16, BN=64, BK=64)
        return y
