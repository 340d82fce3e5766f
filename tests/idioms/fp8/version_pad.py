"""FP8 GEMM over zero-padded copies, so that every load is whole.

The weight's copy outlives the call; its key is the buffer's address and version, so writing to the buffer renews it.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

M, N, K = 4096, 4096, 4096
ALIGN = 128
PAD_DTYPE = torch.float8_e4m3fn


@triton.jit
def whole_tile_gemm(x_ptr, w_ptr, s_ptr, y_ptr, m, n, k, pitch,
                    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    a_ptrs = x_ptr + (rm % m)[:, None] * pitch + rk[None, :]
    b_ptrs = w_ptr + (rn % n)[None, :] * pitch + rk[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, k, BLOCK_K):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    acc *= tl.load(s_ptr + rn % n)[None, :]
    tl.store(y_ptr + rm[:, None] * n + rn[None, :], acc.to(tl.bfloat16), mask=(rm[:, None] < m) & (rn[None, :] < n))


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int):
        super().__init__()
        self.M, self.N, self.K = M, N, K
        w = torch.empty(N, K).normal_(std=0.02)
        scale = w.abs().amax(dim=1) / 448.0
        self.register_buffer("weight", (w / scale[:, None]).to(torch.float8_e4m3fn))
        self.register_buffer("weight_scale", scale)
        self._weight_key = None
        self._weight_pad = None

    def _pad(self, t: torch.Tensor) -> torch.Tensor:
        rows, depth = t.shape
        out = torch.zeros((rows, -(-depth // ALIGN) * ALIGN), dtype=PAD_DTYPE, device=t.device)
        out[:, :depth].copy_(t)
        return out

    def _padded_weight(self) -> torch.Tensor:
        key = (self.weight.data_ptr(), self.weight._version, self.weight.device)
        if key != self._weight_key:
            self._weight_pad = self._pad(self.weight)
            self._weight_key = key
        return self._weight_pad

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        xp, wp = self._pad(x), self._padded_weight()
        m, n, pitch = x.shape[0], self.weight.shape[0], wp.shape[1]
        y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
        block_m = 64 if m <= 64 else 128
        whole_tile_gemm[(triton.cdiv(m, block_m), triton.cdiv(n, 128))](
            xp, wp, self.weight_scale, y, m, n, pitch, pitch, BLOCK_M=block_m, BLOCK_N=128, BLOCK_K=64, num_warps=4
        )
        return y


def get_inputs():
    return [(torch.rand(M, K) * 8 - 4).to(torch.float8_e4m3fn)]


def get_init_inputs():
    return [M, N, K]
