# expect: flagged preunpacked-int4
"""The weight is expanded to bf16 once by a Triton kernel behind a lazy property; an authored GEMM multiplies the copy."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def expand(q, s, z, o, N, HALF: tl.constexpr, BN: tl.constexpr):
    g = tl.program_id(0)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    sc = tl.load(s + g * N + n).to(tl.float32)
    ze = tl.load(z + g * N + n).to(tl.float32)
    for r in range(HALF):
        p = tl.load(q + (g * HALF + r) * N + n)
        tl.store(o + (2 * (g * HALF + r)) * N + n, (((p & 15).to(tl.float32) - ze) * sc).to(tl.bfloat16))
        tl.store(o + (2 * (g * HALF + r) + 1) * N + n, (((p >> 4).to(tl.float32) - ze) * sc).to(tl.bfloat16))


@triton.jit
def gemm(x, w, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        kk = k + tl.arange(0, BK)
        a = tl.load(x + m[:, None] * K + kk[None, :], mask=(m < M)[:, None], other=0.0)
        acc = tl.dot(a, tl.load(w + kk[:, None] * N + n[None, :]), acc)
    tl.store(y + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=(m < M)[:, None])


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.N, self.K, self.g = N, K, group_size
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.__dict__["_dense"] = None

    @property
    def dense(self):
        if self._dense is None:
            out = torch.empty(self.K, self.N, dtype=torch.bfloat16, device=self.w_q.device)
            expand[(self.K // self.g, self.N // 256)](self.w_q, self.scales, self.zeros, out, self.N, HALF=self.g // 2, BN=256)
            self._dense = out
        return self._dense

    def forward(self, x):
        y = torch.empty(x.shape[0], self.N, dtype=torch.bfloat16, device=x.device)
        gemm[(triton.cdiv(x.shape[0], 32), self.N // 64)](x, self.dense, y, x.shape[0], self.N, self.K, BM=32, BN=64, BK=64)
        return y
