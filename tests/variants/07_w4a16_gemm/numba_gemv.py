# expect: kept
"""Numba: a thread has a column of the result; nibbles are unpacked where they are multiplied, bf16 travels as bits."""

import torch
import torch.nn as nn
from numba import cuda, float32, int32, uint16, uint32, void
from numba.cuda import libdevice
from numba import int16, uint8

GROUP = 128
ROWS = 8


@cuda.jit(device=True, inline=True)
def wide(bits):
    return libdevice.int_as_float(int32(bits) << int32(16))


@cuda.jit(device=True, inline=True)
def narrow(value):
    bits = uint32(libdevice.float_as_uint(value))
    return uint16((bits + uint32(0x7FFF) + ((bits >> uint32(16)) & uint32(1))) >> uint32(16))


@cuda.jit(void(int16[:, :], uint8[:, :], int16[:, :], int16[:, :], uint16[:, :], int32, int32))
def gemm(x, w, scales, zeros, y, rows, k):
    n = cuda.grid(1)
    first = cuda.blockIdx.y * ROWS
    part = cuda.local.array(ROWS, float32)
    acc = cuda.local.array(ROWS, float32)
    for r in range(ROWS):
        acc[r] = float32(0)
    if n >= y.shape[1]:
        return
    for g in range(k // GROUP):
        zero = wide(zeros[g, n])
        for r in range(ROWS):
            part[r] = float32(0)
        for i in range(GROUP // 2):
            at = g * (GROUP // 2) + i
            packed = w[at, n]
            low = float32(packed & 0xF) - zero
            high = float32(packed >> 4) - zero
            for r in range(ROWS):
                if first + r < rows:
                    part[r] += low * wide(x[first + r, 2 * at])
                    part[r] += high * wide(x[first + r, 2 * at + 1])
        scale = wide(scales[g, n])
        for r in range(ROWS):
            acc[r] = cuda.fma(part[r], scale, acc[r])
    for r in range(ROWS):
        if first + r < rows:
            y[first + r, n] = narrow(acc[r])


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.n, self.k = N, K
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))

    def forward(self, x):
        m = x.shape[0]
        y = torch.empty(m, self.n, dtype=torch.bfloat16, device=x.device)
        grid = ((self.n + 127) // 128, (m + ROWS - 1) // ROWS)
        stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
        gemm[grid, 128, stream](
            x.contiguous().view(torch.int16), self.w_q, self.scales.view(torch.int16), self.zeros.view(torch.int16),
            y.view(torch.uint16), m, self.k)
        return y
