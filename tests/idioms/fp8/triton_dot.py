"""FP8 GEMM with `tl.dot` straight on e4m3 tiles: pointers, masks and an epilogue that scales and rounds to bf16."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

M, N, K = 4096, 4096, 4096


@triton.jit
def fp8_gemm_kernel(
    x_ptr, w_ptr, scale_ptr, y_ptr,
    rows_total, cols_total, depth,
    stride_xm, stride_wn, stride_ym,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    tile = tl.program_id(0)
    tiles_m = tl.cdiv(rows_total, BLOCK_M)
    rows = (tile % tiles_m) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tile // tiles_m) * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    x_tile = x_ptr + rows[:, None] * stride_xm + ks[None, :]
    w_tile = w_ptr + cols[None, :] * stride_wn + ks[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for done in range(0, depth, BLOCK_K):
        inside = ks < depth - done
        a = tl.load(x_tile, mask=(rows[:, None] < rows_total) & inside[None, :], other=0.0)
        b = tl.load(w_tile, mask=(cols[None, :] < cols_total) & inside[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
        x_tile += BLOCK_K
        w_tile += BLOCK_K
    scale = tl.load(scale_ptr + cols, mask=cols < cols_total, other=0.0)
    out = (acc * scale[None, :]).to(tl.bfloat16)
    keep = (rows[:, None] < rows_total) & (cols[None, :] < cols_total)
    tl.store(y_ptr + rows[:, None] * stride_ym + cols[None, :], out, mask=keep)


class Model(nn.Module):
    """y = (x @ weight.T) * weight_scale, operands e4m3, result bf16."""

    def __init__(self, M: int, N: int, K: int):
        super().__init__()
        self.M, self.N, self.K = M, N, K
        full = torch.empty(N, K).normal_(std=0.02)
        scale = full.abs().amax(dim=1) / 448.0
        self.register_buffer("weight", (full / scale[:, None]).to(torch.float8_e4m3fn))
        self.register_buffer("weight_scale", scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, depth = x.shape
        cols = self.weight.shape[0]
        y = torch.empty((rows, cols), device=x.device, dtype=torch.bfloat16)
        block_m = 64 if rows <= 64 else 128
        block_n = 128
        grid = (triton.cdiv(rows, block_m) * triton.cdiv(cols, block_n),)
        fp8_gemm_kernel[grid](
            x, self.weight, self.weight_scale, y,
            rows, cols, depth,
            x.stride(0), self.weight.stride(0), y.stride(0),
            BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=128,
            num_warps=8, num_stages=3,
        )
        return y


def get_inputs() -> list[torch.Tensor]:
    return [(torch.rand(M, K) * 8 - 4).to(torch.float8_e4m3fn)]


def get_init_inputs() -> list[int]:
    return [M, N, K]
