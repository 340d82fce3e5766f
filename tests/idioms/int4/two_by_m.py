"""W4A16 with two fused kernels: multiply-adds for a single row, tensor cores for more."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

M, N, K = 1, 12288, 4096


@triton.jit
def nibbles(q):
    return (q & 0xF).to(tl.float32), (q >> 4).to(tl.float32)


@triton.jit
def one_row(x_ptr, q_ptr, s_ptr, z_ptr, y_ptr, n, k, BN: tl.constexpr, HALF: tl.constexpr):
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rp = tl.arange(0, HALF)
    acc = tl.zeros((HALF, BN), tl.float32)
    for g in range(k // (2 * HALF)):
        even = tl.load(x_ptr + g * 2 * HALF + 2 * rp).to(tl.float32)[:, None]
        odd = tl.load(x_ptr + g * 2 * HALF + 2 * rp + 1).to(tl.float32)[:, None]
        low, high = nibbles(tl.load(q_ptr + (g * HALF + rp)[:, None] * n + rn[None, :]))
        z = tl.load(z_ptr + g * n + rn).to(tl.float32)[None, :]
        s = tl.load(s_ptr + g * n + rn).to(tl.float32)[None, :]
        acc += ((low - z) * even + (high - z) * odd) * s
    tl.store(y_ptr + rn, tl.sum(acc, axis=0).to(tl.bfloat16))


@triton.jit
def many_rows(x_ptr, q_ptr, s_ptr, z_ptr, y_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, HALF: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rp = tl.arange(0, HALF)
    acc = tl.zeros((BM, BN), tl.float32)
    for g in range(k // (2 * HALF)):
        x_at = x_ptr + rm[:, None] * k + g * 2 * HALF + 2 * rp[None, :]
        even = tl.load(x_at, mask=rm[:, None] < m, other=0.0)
        odd = tl.load(x_at + 1, mask=rm[:, None] < m, other=0.0)
        low, high = nibbles(tl.load(q_ptr + (g * HALF + rp)[:, None] * n + rn[None, :]))
        z = tl.load(z_ptr + g * n + rn).to(tl.float32)[None, :]
        s = tl.load(s_ptr + g * n + rn).to(tl.float32)[None, :]
        acc += tl.dot(even, ((low - z) * s).to(tl.bfloat16))
        acc += tl.dot(odd, ((high - z) * s).to(tl.bfloat16))
    tl.store(y_ptr + rm[:, None] * n + rn[None, :], acc.to(tl.bfloat16), mask=rm[:, None] < m)


def gemv(x, w_q, scales, zeros):
    n = w_q.shape[1]
    y = torch.empty((1, n), dtype=torch.bfloat16, device=x.device)
    one_row[(n // 128,)](x, w_q, scales, zeros, y, n, x.shape[1], BN=128, HALF=64)
    return y


def gemm(x, w_q, scales, zeros):
    m, k = x.shape
    n = w_q.shape[1]
    y = torch.empty((m, n), dtype=torch.bfloat16, device=x.device)
    bm = 16 if m <= 16 else (32 if m <= 32 else 64)
    many_rows[(triton.cdiv(m, bm), n // 128)](x, w_q, scales, zeros, y, m, n, k, BM=bm, BN=128, HALF=64)
    return y


def dequantise(w_q, scales, zeros):
    """The dense bf16 weight, for checks."""
    q = torch.stack([w_q & 0xF, w_q >> 4], dim=1).flatten(0, 1).to(torch.bfloat16)
    return (q - zeros.repeat_interleave(128, dim=0)) * scales.repeat_interleave(128, dim=0)


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int, group_size: int = 128):
        super().__init__()
        self.M, self.N, self.K, self.group_size = M, N, K, group_size
        self.register_buffer("w_q", torch.randint(0, 256, (K // 2, N), dtype=torch.uint8))
        self.register_buffer("scales", torch.full((K // group_size, N), 0.01, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.full((K // group_size, N), 8.0, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 1:
            return gemv(x, self.w_q, self.scales, self.zeros)
        return gemm(x, self.w_q, self.scales, self.zeros)


def get_inputs():
    return [torch.randn(M, K, dtype=torch.bfloat16)]


def get_init_inputs():
    return [M, N, K]
