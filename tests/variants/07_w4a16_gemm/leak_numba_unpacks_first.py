# expect: flagged preunpacked-int4
"""Numba: one kernel writes the weights out in fp32 on every call, another multiplies them."""

import torch
import torch.nn as nn
from numba import cuda, float32, int32, uint16, uint32
from numba.cuda import libdevice

GROUP = 128


@cuda.jit(device=True, inline=True)
def wide(bits):
    return libdevice.int_as_float(int32(bits) << int32(16))


@cuda.jit(device=True, inline=True)
def narrow(value):
    bits = uint32(libdevice.float_as_uint(value))
    return uint16((bits + uint32(0x7FFF) + ((bits >> uint32(16)) & uint32(1))) >> uint32(16))


@cuda.jit
def unpack(w, scales, zeros, out):
    i, n = cuda.grid(2)
    if i < w.shape[0] and n < w.shape[1]:
        g = i // (GROUP // 2)
        scale, zero = wide(scales[g, n]), wide(zeros[g, n])
        out[2 * i, n] = (float32(w[i, n] & 0xF) - zero) * scale
        out[2 * i + 1, n] = (float32(w[i, n] >> 4) - zero) * scale


@cuda.jit
def gemm(x, w, y, k):
    n, m = cuda.grid(2)
    if n < y.shape[1]:
        acc = float32(0)
        for i in range(k):
            acc += wide(x[m, i]) * w[i, n]
        y[m, n] = narrow(acc)


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
        w = torch.empty(self.k, self.n, device=x.device)
        unpack[(self.k // 2 // 16, self.n // 16), (16, 16)](
            self.w_q, self.scales.view(torch.int16), self.zeros.view(torch.int16), w)
        gemm[(self.n // 128, m), (128, 1)](x.contiguous().view(torch.int16), w, y.view(torch.uint16), self.k)
        return y
