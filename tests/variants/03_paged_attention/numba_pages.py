# expect: kept
"""Numba: a block a sequence and head, a warp a position; running maximum and sum, then the warps meet."""

import math

import numba
import numpy as np
import torch
import torch.nn as nn
from numba import cuda, float32

WARPS = 4
FULL = 0xFFFFFFFF
LOW = np.float32(-1.0e30)


@cuda.jit(device=True)
def wide(bits):
    return cuda.libdevice.int_as_float(numba.int32(bits) << numba.int32(16))


@cuda.jit(device=True)
def narrow(value):
    bits = cuda.libdevice.float_as_int(value)
    return numba.int16((bits + numba.int32(0x7FFF) + ((bits >> numba.int32(16)) & numba.int32(1))) >> numba.int32(16))


def decode_for(dim):
    each = dim // 32

    @cuda.jit(fastmath=True)
    def decode(q, cache, table, lens, out, scale):
        head, b = cuda.blockIdx.x, cuda.blockIdx.y
        lane, warp = cuda.threadIdx.x, cuda.threadIdx.y
        shared_head = head // (q.shape[1] // cache.shape[2])
        mine = cuda.local.array(each, float32)
        acc = cuda.local.array(each, float32)
        tops = cuda.shared.array(WARPS, float32)
        sums = cuda.shared.array(WARPS, float32)
        parts = cuda.shared.array((WARPS, dim), float32)
        for i in range(each):
            mine[i] = wide(q[b, head, lane * each + i]) * scale
            acc[i] = 0
        top = float32(LOW)
        total = float32(0)
        for p in range(warp, lens[b], WARPS):
            page = table[b, p // cache.shape[1]]
            row = cache[page, p % cache.shape[1], shared_head]
            score = float32(0)
            for i in range(each):
                score += mine[i] * wide(row[lane * each + i])
            for step in (16, 8, 4, 2, 1):
                score += cuda.shfl_xor_sync(FULL, score, step)
            above = max(top, score)
            keep = math.exp(top - above)
            weight = math.exp(score - above)
            total = total * keep + weight
            for i in range(each):
                acc[i] = acc[i] * keep + weight * wide(row[dim + lane * each + i])
            top = above
        if lane == 0:
            tops[warp] = top
            sums[warp] = total
        for i in range(each):
            parts[warp, lane * each + i] = acc[i]
        cuda.syncthreads()
        at = warp * 32 + lane
        while at < dim:
            top = float32(LOW)
            for w in range(WARPS):
                top = max(top, tops[w])
            total = float32(0)
            value = float32(0)
            for w in range(WARPS):
                weight = math.exp(tops[w] - top)
                total += sums[w] * weight
                value += parts[w, at] * weight
            out[b, head, at] = narrow(value / total)
            at += WARPS * 32

    return decode


class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()
        self.decode, self.scale = decode_for(head_dim), np.float32(head_dim**-0.5)

    def forward(self, query, kv_cache, block_table, seq_lens):
        out = torch.empty_like(query)
        batch, heads, _ = query.shape
        words = [tensor.contiguous().view(torch.int16) for tensor in (query, kv_cache)]
        self.decode[(heads, batch), (32, WARPS)](*words, block_table, seq_lens, out.view(torch.int16), self.scale)
        return out
