"""Two grouped products and SwiGLU in kernels; a test puts torch in the place of one."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def grouped(x, w, out, offsets, H, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    e = tl.program_id(0)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    first = tl.load(offsets + e)
    last = tl.load(offsets + e + 1)
    for start in range(first, last, BM):
        rows = start + tl.arange(0, BM)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, H, BK):
            d = k + tl.arange(0, BK)
            a = tl.load(x + rows[:, None].to(tl.int64) * H + d[None, :], mask=(rows < last)[:, None], other=0.0)
            weight = w + e.to(tl.int64) * H * N + d[:, None] * N
            b = tl.load(weight + cols[None, :], mask=(cols < N)[None, :], other=0.0)
            acc = tl.dot(a, b, acc)
        inside = (rows < last)[:, None] & (cols < N)[None, :]
        tl.store(out + rows[:, None].to(tl.int64) * N + cols[None, :], acc.to(tl.bfloat16), mask=inside)


@triton.jit
def swiglu(g, u, y, n, B: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    a = tl.load(g + at, mask=at < n).to(tl.float32)
    b = tl.load(u + at, mask=at < n).to(tl.float32)
    tl.store(y + at, (a / (1.0 + tl.exp(-a)) * b).to(tl.bfloat16), mask=at < n)


class Model(nn.Module):
    def __init__(self, T_total: int, H: int, I: int, E: int, K: int) -> None:  # noqa: E741
        super().__init__()
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))

    def product(self, x, w, offsets):
        E, H, N = w.shape
        out = x.new_empty(x.shape[0], N)
        grouped[(E, triton.cdiv(N, 64))](x, w, out, offsets, H, N, BM=64, BN=64, BK=32)
        return out

    def other(self, x, w, offsets):
        out = x.new_empty(x.shape[0], w.shape[2])
        at = offsets.tolist()
        for e in range(w.shape[0]):
            out[at[e] : at[e + 1]] = x[at[e] : at[e + 1]] @ w[e]
        return out

    def forward(self, hidden_states, expert_offsets):
        g = self.product(hidden_states, self.W_gate, expert_offsets)
        u = self.product(hidden_states, self.W_up, expert_offsets)
        # join
        y = torch.empty_like(g)
        swiglu[(triton.cdiv(g.numel(), 1024),)](g, u, y, g.numel(), B=1024)
        # end
        return y
