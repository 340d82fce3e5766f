"""Persistent FP8 GEMM: one program an SM walks the tiles; the TMA descriptors are made inside the kernel."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

M = 4096
N = 4096
K = 4096


@triton.jit
def _product(a, b, acc):
    return tl.dot(a, tl.trans(b), acc)


@triton.jit
def persistent_gemm(
    a_ptr, b_ptr, s_ptr, c_ptr,
    M, N, K, lda, ldb,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PROGRAMS: tl.constexpr,
):
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[lda, 1], block_shape=[BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[ldb, 1], block_shape=[BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * tiles_n
    steps = tl.cdiv(K, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS):
        row = (tile // tiles_n) * BLOCK_M
        col = (tile % tiles_n) * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(steps):
            a = a_desc.load([row, step * BLOCK_K])
            b = b_desc.load([col, step * BLOCK_K])
            acc = _product(a, b, acc)
        scale = tl.load(s_ptr + col + tl.arange(0, BLOCK_N))
        c_desc.store([row, col], (acc * scale[None, :]).to(tl.bfloat16))


def _scratch(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    return torch.empty(size, dtype=torch.int8, device="cuda")


def _aligned_rows(t: torch.Tensor) -> torch.Tensor:
    """`t`, or a zero-padded copy of the same type whose row pitch suits TMA."""
    depth = t.shape[1]
    pitch = (depth + 15) // 16 * 16
    if pitch == depth:
        return t
    return torch.nn.functional.pad(t.view(torch.uint8), (0, pitch - depth)).view(t.dtype)


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int):
        super().__init__()
        self.M = M
        self.N = N
        self.K = K
        dense = torch.normal(0.0, 0.02, (N, K))
        amax = dense.abs().amax(1).clamp(min=1e-12)
        self.register_buffer("weight", (dense * (448.0 / amax)[:, None]).to(torch.float8_e4m3fn))
        self.register_buffer("weight_scale", amax / 448.0)
        self._sms = 0

    def forward(self, x):
        if not self._sms:
            self._sms = torch.cuda.get_device_properties(x.device).multi_processor_count
            triton.set_allocator(_scratch)
        a = _aligned_rows(x)
        b = _aligned_rows(self.weight)
        y = torch.empty(x.shape[0], self.N, device=x.device, dtype=torch.bfloat16)
        persistent_gemm[(self._sms,)](
            a, b, self.weight_scale, y,
            x.shape[0], self.N, a.shape[1], a.stride(0), b.stride(0),
            BLOCK_M=64, BLOCK_N=128, BLOCK_K=128, PROGRAMS=self._sms,
            num_warps=4, num_stages=4,
        )
        return y


def get_inputs():
    return [torch.empty(M, K).uniform_(-4.0, 4.0).to(torch.float8_e4m3fn)]


def get_init_inputs():
    return [M, N, K]
