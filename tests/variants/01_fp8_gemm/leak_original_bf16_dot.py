# expect: flagged fp8-upcast-bf16-gemm
"""The first board's contract: a bf16 weight, x cast in the tile by an inline asm conversion, bf16 dot."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x, w, y, M, N, K, sx, sw, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EVEN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        kk = i * BK + tl.arange(0, BK)
        if EVEN:
            a = tl.load(x + m[:, None] * sx + kk[None, :])
            b = tl.load(w + n[:, None] * sw + kk[None, :])
        else:
            a = tl.load(x + m[:, None] * sx + kk[None, :], mask=kk[None, :] < K, other=0.0)
            b = tl.load(w + n[:, None] * sw + kk[None, :], mask=kk[None, :] < K, other=0.0)
        acc += tl.dot(a.to(b.dtype), b.T)
    tl.store(y + m[:, None] * N + n[None, :], acc.to(y.dtype.element_ty), mask=(m < M)[:, None])


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(N, K, dtype=torch.bfloat16))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x):
        (m, kdim), n = x.shape, self.weight.shape[0]
        y = x.new_empty((m, n), dtype=torch.bfloat16)
        k[(triton.cdiv(m, 32), n // 128)](x, self.weight, y, m, n, kdim, x.stride(0), self.weight.stride(0), BM=32, BN=128,
                                          BK=64, EVEN=kdim % 64 == 0)
        return y
