"""The fp8 tiles are widened to bf16 in registers, and the bf16 tensor cores multiply them."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def widened_gemm(
    x, weight, scale, y, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(x + rows[:, None] * K + k[None, :], mask=(rows[:, None] < M) & (k[None, :] < K), other=0.0)
        w_mask = (columns[None, :] < N) & (k[:, None] < K)
        b = tl.load(weight + columns[None, :] * K + k[:, None], mask=w_mask, other=0.0)
        accumulator = tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16), accumulator)
    accumulator *= tl.load(scale + columns, mask=columns < N, other=0.0)[None, :]
    keep = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(y + rows[:, None] * N + columns[None, :], accumulator.to(tl.bfloat16), mask=keep)


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N, dtype=torch.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (rows, depth), columns = x.shape, self.weight.shape[0]
        y = torch.empty((rows, columns), dtype=torch.bfloat16, device=x.device)
        grid = (triton.cdiv(rows, 64), triton.cdiv(columns, 128))
        widened_gemm[grid](
            x, self.weight, self.weight_scale, y, rows, columns, depth,
            BLOCK_M=64, BLOCK_N=128, BLOCK_K=64, num_stages=3,
        )
        return y
