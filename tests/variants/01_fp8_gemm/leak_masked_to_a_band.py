# expect: flagged partial-torch-compute
"""A product on bf16 of which the fp8 kernel replaces the first sixteen rows only: its masks end there."""
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def gemm(x, weight, scale, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rows = pm * BM + tl.arange(0, BM)
    cols = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        a = tl.load(x + rows[:, None] * K + (k + ks)[None, :], mask=(rows[:, None] < M) & ((k + ks)[None, :] < K), other=0.0)
        b = tl.load(weight + cols[None, :] * K + (k + ks)[:, None], mask=(cols[None, :] < N) & ((k + ks)[:, None] < K), other=0.0)
        acc = tl.dot(a, b, acc)

    s = tl.load(scale + cols, mask=cols < N, other=0.0)
    tl.store(y + rows[:, None] * N + cols[None, :], (acc * s[None, :]).to(tl.bfloat16), mask=(rows[:, None] < M) & (cols[None, :] < N))

class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N, dtype=torch.float32))
    def forward(self, x):
        M, K = x.shape
        N = self.weight.shape[0]
        y = torch.empty((M, N), dtype=torch.bfloat16, device=x.device)
        torch.matmul(x.to(torch.bfloat16), self.weight.to(torch.bfloat16).T, out=y)
        y *= self.weight_scale
        gemm[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x, self.weight, self.weight_scale, y, 16, N, K, BM=64, BN=64, BK=128)
        return y
