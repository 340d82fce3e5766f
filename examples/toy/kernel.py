import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rows(x, w, used, y, K: tl.constexpr, N: tl.constexpr, KP: tl.constexpr, NP: tl.constexpr):
    row = tl.program_id(0)
    k, n = tl.arange(0, KP), tl.arange(0, NP)
    a = tl.load(x + row * K + k, mask=k < K, other=0.0)
    b = tl.load(w + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
    total = tl.sum(a[:, None] * b, axis=0)
    total = tl.where(row < tl.load(used), total, 0.0)
    tl.store(y + row * N + n, total, mask=n < N)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.M, self.N, self.K = M, N, K
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        y = torch.empty((self.M, self.N), dtype=x.dtype, device=x.device)
        padded = triton.next_power_of_2(self.K), triton.next_power_of_2(self.N)
        rows[(self.M,)](x, self.w, used, y, self.K, self.N, *padded)
        return y
