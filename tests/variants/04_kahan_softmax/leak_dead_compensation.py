# expect: flagged missing-kahan
"""A Kahan kernel stands in the file; the launched one has none."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kahan_kernel(x, y, n, B: tl.constexpr):
    row = tl.program_id(0)
    s = tl.zeros((B,), tl.float32)
    c = tl.zeros((B,), tl.float32)
    for o in range(0, n, B):
        v = tl.exp(tl.load(x + row * n + o + tl.arange(0, B))) - c
        t = s + v
        c = (t - s) - v
        s = t
    tl.store(y + row, tl.sum(s))


@triton.jit
def fast_kernel(x, y, n, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    m = tl.full((B,), -float("inf"), tl.float32)
    d = tl.zeros((B,), tl.float32)
    for o in range(0, n, B):
        v = tl.load(x + row * n + o + c)
        m2 = tl.maximum(m, v)
        d = d * tl.exp(m - m2) + tl.exp(v - m2)
        m = m2
    top = tl.max(m, 0)
    total = tl.sum(d * tl.exp(m - top), 0)
    for o in range(0, n, B):
        v = tl.load(x + row * n + o + c)
        tl.store(y + row * n + o + c, tl.exp(v - top) / total)


VARIANTS = {"kahan": kahan_kernel, "fast": fast_kernel}


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()
        self.variant = "fast"

    def forward(self, x):
        y = torch.empty_like(x)
        VARIANTS[self.variant][(x.shape[0],)](x, y, x.shape[1], B=2048)
        return y
