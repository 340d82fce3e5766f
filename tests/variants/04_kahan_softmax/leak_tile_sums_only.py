# expect: flagged missing-kahan
"""Split softmax, fp32 tree sums in tiles, plain addition across them."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune([triton.Config({"B": b}, num_warps=w) for b in (1024, 4096) for w in (4, 8)], key=["n"])
@triton.jit
def softmax_kernel(x, y, n, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    m = tl.full((), float("-inf"), tl.float32)
    kahan_sum = tl.full((), 0.0, tl.float32)
    for o in tl.range(0, n, B):
        c = o + tl.arange(0, B)
        v = tl.load(x + row + c, mask=c < n, other=float("-inf"))
        m2 = tl.maximum(m, tl.max(v, 0))
        kahan_sum = kahan_sum * tl.exp(m - m2) + tl.sum(tl.exp(v - m2), 0)
        m = m2
    inv = 1.0 / kahan_sum
    for o in tl.range(0, n, B):
        c = o + tl.arange(0, B)
        tl.store(y + row + c, tl.exp(tl.load(x + row + c, mask=c < n) - m) * inv, mask=c < n)


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        y = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, y, x.shape[1])
        return y
