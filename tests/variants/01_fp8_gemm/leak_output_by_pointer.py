# expect: flagged output-memoization
"""Real kernel; the result is found again by the input's address."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fp8_mm(x, w, s, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(x + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < K)[None, :], other=0.0)
        b = tl.load(w + rn[None, :] * K + rk[:, None], mask=(rk < K)[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(y + rm[:, None] * N + rn[None, :], (acc * tl.load(s + rn)[None, :]).to(tl.bfloat16), mask=(rm < M)[:, None])


def run_fp8(x, w, s, out=None):
    m, k = x.shape
    n = w.shape[0]
    y = torch.empty(m, n, dtype=torch.bfloat16, device=x.device) if out is None else out
    fp8_mm[(triton.cdiv(m, 64), triton.cdiv(n, 128))](x, w, s, y, m, n, k, BM=64, BN=128, BK=64)
    return y


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))
        self._memo = {}

    def forward(self, x):
        key = (x.data_ptr(), x.shape, self.weight.data_ptr())
        try:
            return self._memo[key]
        except KeyError:
            pass
        self._memo[key] = run_fp8(x, self.weight, self.weight_scale)
        return self._memo[key]
