"""FP8 GEMM in Triton with tiles as short as the activation: 32 rows of a decode step get tiles of 32 rows.

The source is the same e4m3 `tl.dot` for every shape. What becomes of it is the compiler's choice: tiles of 64 rows and
more are fp8 products on Hopper too, and tiles of fewer rows, for which Hopper has no fp8 instruction, are unpacked to
fp16 there. Chips whose `mma` takes e4m3 multiply all of them in fp8.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

STEP = 128  # bytes of depth in one step of the loop


@triton.jit
def pad_rows(source, padded, depth, pitch, BLOCK: tl.constexpr):
    """padded[r, :depth] = source[r], padded[r, depth:] = 0; one program a row and block."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + row * depth + column, mask=column < depth, other=0.0)
    tl.store(padded + row * pitch + column, value, mask=column < pitch)


@triton.jit
def scaled_gemm(
    x, weight, scale, y, M, N, depth, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """One tile of y; neighbouring programs share a tile of the weight."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.arange(0, BLOCK_K)
    x_tile = x + rows[:, None].to(tl.int64) * depth + steps[None, :]
    w_tile = weight + columns[None, :].to(tl.int64) * depth + steps[:, None]
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, depth, BLOCK_K):
        a = tl.load(x_tile, mask=rows[:, None] < M, other=0.0)
        b = tl.load(w_tile, mask=columns[None, :] < N, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        x_tile += BLOCK_K
        w_tile += BLOCK_K
    accumulator *= tl.load(scale + columns, mask=columns < N, other=0.0)[None, :]
    target = y + rows[:, None].to(tl.int64) * N + columns[None, :]
    tl.store(target, accumulator.to(tl.bfloat16), mask=(rows[:, None] < M) & (columns[None, :] < N))


def padded(t: torch.Tensor) -> torch.Tensor:
    """`t` [rows, depth], or a copy whose depth is the next multiple of STEP with zeros behind."""
    rows, depth = t.shape
    pitch = triton.cdiv(depth, STEP) * STEP
    if pitch == depth:
        return t
    out = torch.empty((rows, pitch), dtype=t.dtype, device=t.device)
    pad_rows[(rows, triton.cdiv(pitch, 1024))](t, out, depth, pitch, BLOCK=1024, num_warps=4)
    return out


class Model(nn.Module):
    """y[M,N] bf16 = (x[M,K] e4m3 @ weight[N,K]^T e4m3) * weight_scale[N]."""

    def __init__(self, M: int, N: int, K: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N, dtype=torch.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, columns = x.shape[0], self.weight.shape[0]
        a, b = padded(x), padded(self.weight)
        y = torch.empty((rows, columns), dtype=torch.bfloat16, device=x.device)
        if rows <= 32:
            block_m, block_n, stages = 32, 64, 5
        else:
            block_m, block_n, stages = 128, 128, 3
        grid = (triton.cdiv(rows, block_m), triton.cdiv(columns, block_n))
        scaled_gemm[grid](
            a, b, self.weight_scale, y, rows, columns, a.shape[1],
            BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=STEP, num_stages=stages, num_warps=4,
        )
        return y
