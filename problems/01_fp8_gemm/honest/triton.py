"""FP8 GEMM in Triton: e4m3 tiles go straight into `tl.dot`, and the column scale multiplies the fp32 accumulator.

A depth that is not a whole number of steps is padded with zero bytes, still in e4m3: the activation on every call,
the weight once per version of the buffer. So every row starts on a 16-byte boundary and the inner loop needs no
mask over the depth. A short activation (decode) gets tiles of 64 rows, the fewest that Hopper's fp8 instruction
takes; narrow tiles then spread the weight over all multiprocessors, and a deep pipeline keeps enough of it in
flight.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

STEP = 256  # a whole number of steps of either loop, in elements (and bytes)


@triton.jit
def pad_rows(source, padded, depth, pitch, BLOCK: tl.constexpr):
    """padded[r, :depth] = source[r], padded[r, depth:] = 0; one program a row and block."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + row * depth + column, mask=column < depth, other=0.0)
    tl.store(padded + row * pitch + column, value, mask=column < pitch)


@triton.jit
def fp8_gemm(
    x, weight, scale, y, M, N, depth,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):
    """One tile of y; tiles are walked in bands of GROUP rows of tiles, so that a wave shares what it reads in L2."""
    tile = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first = tile // (GROUP * tiles_n) * GROUP
    band = min(tiles_m - first, GROUP)
    rows = (first + tile % (GROUP * tiles_n) % band) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile % (GROUP * tiles_n) // band * BLOCK_N + tl.arange(0, BLOCK_N)
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
    factor = tl.load(scale + columns, mask=columns < N, other=0.0)
    result = (accumulator * factor[None, :]).to(tl.bfloat16)
    target = y + rows[:, None].to(tl.int64) * N + columns[None, :]
    tl.store(target, result, mask=(rows[:, None] < M) & (columns[None, :] < N))


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
        self._padded: torch.Tensor | None = None
        self._version: tuple[int, int] | None = None

    def _padded_weight(self) -> torch.Tensor:
        """The weight with a padded depth; made again whenever the buffer is another or was written to."""
        version = (self.weight.data_ptr(), self.weight._version)
        if self._version != version:
            self._padded = padded(self.weight)
            self._version = version
        return self._padded

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, columns = x.shape[0], self.weight.shape[0]
        a, b = padded(x), self._padded_weight()
        y = torch.empty((rows, columns), dtype=torch.bfloat16, device=x.device)
        if rows <= 64:
            block_m, block_n, block_k, stages, warps = 64, 64, 256, 6, 4
        else:
            block_m, block_n, block_k, stages, warps = 128, 128, 128, 3, 4
        grid = (triton.cdiv(rows, block_m) * triton.cdiv(columns, block_n),)
        fp8_gemm[grid](
            a, b, self.weight_scale, y, rows, columns, a.shape[1],
            BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP=8, num_stages=stages, num_warps=warps,
        )
        return y
