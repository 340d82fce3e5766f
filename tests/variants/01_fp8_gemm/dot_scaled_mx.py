# expect: kept
"""tl.dot_scaled with unit scales on e4m3 tiles."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mx(x, w, s, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        kk = k + tl.arange(0, BK)
        a = tl.load(x + m[:, None] * K + kk[None, :], mask=(m < M)[:, None] & (kk < K)[None, :], other=0.0)
        b = tl.load(w + n[None, :] * K + kk[:, None], mask=(kk < K)[:, None], other=0.0)
        one_a = tl.full((BM, BK // 32), 127, tl.uint8)
        one_b = tl.full((BN, BK // 32), 127, tl.uint8)
        acc = tl.dot_scaled(a, one_a, "e4m3", b, one_b, "e4m3", acc)
    acc = acc * tl.load(s + n)[None, :]
    tl.store(y + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=(m < M)[:, None])


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        m, k = x.shape
        n = self.weight.shape[0]
        y = torch.empty((m, n), dtype=torch.bfloat16, device=x.device)
        mx[triton.cdiv(m, 128), triton.cdiv(n, 128)](x, self.weight, self.weight_scale, y, m, n, k, 128, 128, 128)
        return y
