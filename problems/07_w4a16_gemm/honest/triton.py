"""W4A16 GEMM in Triton: packed bytes are read, split into nibbles and multiplied by `tl.dot` in one kernel.

A byte holds an even row of the depth (low nibble) and the next odd one, so the product is the sum of two: even
columns of x with the low nibbles, odd columns with the high ones. Each step of the loop is one quantisation group:
q - zero is exact in bf16, and the group's scale multiplies the fp32 partial product. Few rows leave few tiles, so
the depth is then split over programs that write fp32 partial sums, and a second kernel adds them in a fixed order.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def w4a16(
    x, packed, scales, zeros, out, M, N, K, groups_each,
    GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SPLITS: tl.constexpr,
):
    """One tile of y over the groups of one split; `out` is y, or [SPLITS, M, N] fp32 partial sums."""
    HALF: tl.constexpr = GROUP // 2
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    split = tl.program_id(2)
    first = split * groups_each
    last = min(first + groups_each, K // GROUP)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for group in range(first, last):
        ks = group * GROUP + tl.arange(0, GROUP)
        pairs = group * HALF + tl.arange(0, HALF)
        activation = tl.load(x + rows[:, None] * K + ks[None, :], mask=rows[:, None] < M, other=0.0)
        even, odd = tl.split(tl.reshape(activation, (BLOCK_M, HALF, 2)))
        q = tl.load(packed + pairs[:, None] * N + columns[None, :], mask=columns[None, :] < N, other=0)
        zero = tl.load(zeros + group * N + columns, mask=columns < N, other=0.0)
        scale = tl.load(scales + group * N + columns, mask=columns < N, other=0.0)
        low = (q & 0xF).to(tl.bfloat16) - zero[None, :]
        high = (q >> 4).to(tl.bfloat16) - zero[None, :]
        product = tl.dot(odd, high, tl.dot(even, low))
        accumulator += product * scale[None, :].to(tl.float32)
    keep = (rows[:, None] < M) & (columns[None, :] < N)
    target = out + split * M * N + rows[:, None] * N + columns[None, :]
    if SPLITS == 1:
        tl.store(target, accumulator.to(tl.bfloat16), mask=keep)
    else:
        tl.store(target, accumulator, mask=keep)


@triton.jit
def add_splits(partial, y, total, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    """y = the sum of the SPLITS partial results, in order."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    accumulator = tl.zeros((BLOCK,), dtype=tl.float32)
    for split in tl.static_range(SPLITS):
        accumulator += tl.load(partial + split * total + at, mask=at < total, other=0.0)
    tl.store(y + at, accumulator.to(tl.bfloat16), mask=at < total)


class Model(nn.Module):
    """y[M,N] bf16 = x[M,K] bf16 @ ((q - zero) * scale), q unpacked from w_q[K/2,N]."""

    def __init__(self, M: int, N: int, K: int, group_size: int = 128) -> None:
        super().__init__()
        self.group = group_size
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, depth = x.shape
        columns = self.w_q.shape[1]
        groups = depth // self.group
        block_m, block_n, splits = (16, 64, 4) if rows <= 16 else (32, 64, 4) if rows <= 32 else (64, 64, 1)
        splits = min(splits, groups)
        y = torch.empty((rows, columns), dtype=torch.bfloat16, device=x.device)
        out = y if splits == 1 else torch.empty((splits, rows, columns), dtype=torch.float32, device=x.device)
        grid = (triton.cdiv(columns, block_n), triton.cdiv(rows, block_m), splits)
        w4a16[grid](
            x, self.w_q, self.scales, self.zeros, out, rows, columns, depth, triton.cdiv(groups, splits),
            GROUP=self.group, BLOCK_M=block_m, BLOCK_N=block_n, SPLITS=splits, num_stages=3, num_warps=4,
        )
        if splits > 1:
            total = rows * columns
            add_splits[(triton.cdiv(total, 1024),)](out, y, total, SPLITS=splits, BLOCK=1024)
        return y
