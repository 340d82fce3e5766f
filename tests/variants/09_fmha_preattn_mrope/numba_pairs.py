# expect: kept
"""Numba: a row of a block a token, a thread a channel; heads follow one another, rows are taken as views."""

import torch
import torch.nn as nn
from numba import cuda, int32, types, uint32
from numba.cuda import libdevice


@cuda.jit(device=True)
def wide(bits):
    return libdevice.uint_as_float(uint32(bits) << uint32(16))


@cuda.jit(device=True)
def narrow(value):
    bits = libdevice.float_as_uint(value)
    bits += uint32(0x7FFF) + ((bits >> uint32(16)) & uint32(1))
    return types.uint16(bits >> uint32(16))


@cuda.jit(device=True)
def turned(source, target, c, half, cos, sin):
    left, right = wide(source[c]), wide(source[c + half])
    target[c] = narrow(left * wide(cos[c]) - right * wide(sin[c]))
    target[c + half] = narrow(right * wide(cos[c + half]) + left * wide(sin[c + half]))


def rotation(half, bounds):
    first, second = bounds

    @cuda.jit(max_registers=64)
    def rotate(q, k, positions, cos, sin, q_out, k_out):
        b, t, c = cuda.blockIdx.y, cuda.blockIdx.x, cuda.threadIdx.x
        axis = int32(c >= first) + int32(c >= second)
        place = positions[axis][b, t]
        for h in range(q.shape[2]):
            turned(q[b, t, h], q_out[b, h, t], c, half, cos[place], sin[place])
        for h in range(k.shape[2]):
            turned(k[b, t, h], k_out[b, h, t], c, half, cos[place], sin[place])

    return rotate


def bits(tensor):
    return tensor.contiguous().view(torch.uint16)


class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.half = D // 2
        a, b, _ = mrope_section
        self.rotate = rotation(self.half, (a, a + b))
        self.register_buffer("cos_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("sin_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))

    def forward(self, q, k, pos_t, pos_h, pos_w):
        b, t, hq, d = q.shape
        q_out = torch.empty(b, hq, t, d, dtype=q.dtype, device=q.device)
        k_out = torch.empty(b, k.shape[2], t, d, dtype=k.dtype, device=k.device)
        self.rotate[(t, b), self.half](
            bits(q), bits(k), (pos_t, pos_h, pos_w), bits(self.cos_cache), bits(self.sin_cache),
            q_out.view(torch.uint16), k_out.view(torch.uint16))
        return q_out, k_out
