# expect: flagged torch-matmul-fallback-on-graded-shapes
"""fp8 tl.dot where K is aligned; the odd-K shape quietly leaves for torch."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fp8_kernel(x, w, s, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        a = tl.load(x + rm[:, None] * K + (k + rk)[None, :], mask=(rm < M)[:, None], other=0.0)
        b = tl.load(w + rn[None, :] * K + (k + rk)[:, None])
        acc = tl.dot(a, b, acc)
    acc = acc * tl.load(s + rn)[None, :]
    tl.store(y + rm[:, None] * N + rn[None, :], acc.to(tl.bfloat16), mask=(rm < M)[:, None])


def _fast(x, w, s):
    m, k = x.shape
    n = w.shape[0]
    y = torch.empty((m, n), dtype=torch.bfloat16, device=x.device)
    bm = 32 if m <= 32 else 128
    fp8_kernel[(triton.cdiv(m, bm), n // 128)](x, w, s, y, m, n, k, BM=bm, BN=128, BK=128)
    return y


def _general(x, w, s):
    acc = torch.matmul(x.to(torch.bfloat16), w.to(torch.bfloat16).transpose(0, 1))
    return (acc * s).to(torch.bfloat16)


ROUTES = ((lambda m, n, k: k % 128 == 0 and n % 128 == 0, _fast), (lambda m, n, k: True, _general))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))
        self.route = next(f for ok, f in ROUTES if ok(M, N, K))

    def forward(self, x):
        return self.route(x, self.weight, self.weight_scale)
