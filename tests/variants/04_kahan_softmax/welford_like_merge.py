# expect: kept
"""Single-kernel Triton softmax with Neumaier in a helper that returns a tuple, over a while loop with two accumulators."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def neumaier(s, c, v):
    t = s + v
    c += tl.where(tl.abs(s) >= tl.abs(v), (s - t) + v, (v - t) + s)
    return t, c


@triton.jit
def soft(y_ptr, x_ptr, n, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * n
    y_ptr += row * n
    off = tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    i = 0
    while i < n:
        top = tl.maximum(top, tl.load(x_ptr + i + off, mask=i + off < n, other=-float("inf")))
        i += BLOCK
    m = tl.max(top, axis=0)
    s0 = tl.zeros((BLOCK,), tl.float32)
    c0 = tl.zeros((BLOCK,), tl.float32)
    i = 0
    while i < n:
        for u in tl.static_range(UNROLL):
            j = i + u * BLOCK + off
            s0, c0 = neumaier(s0, c0, tl.exp(tl.load(x_ptr + j, mask=j < n, other=-float("inf")) - m))
        i += BLOCK * UNROLL
    total = tl.sum(s0, axis=0) + tl.sum(c0, axis=0)
    i = 0
    while i < n:
        v = tl.load(x_ptr + i + off, mask=i + off < n, other=0.0)
        tl.store(y_ptr + i + off, tl.exp(v - m) / total, mask=i + off < n)
        i += BLOCK


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        soft[(x.size(0), 1, 1)](y, x.contiguous(), x.size(1), BLOCK=1024, UNROLL=2, num_warps=8)
        return y
