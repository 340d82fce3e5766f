# expect: flagged missing-kahan
"""Triton makes exponentials and divides; the sum between them is torch.sum in fp32."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def expo(x, m, e, n, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * B + tl.arange(0, B)
    tl.store(e + row * n + c, tl.exp(tl.load(x + row * n + c, mask=c < n) - tl.load(m + row)), mask=c < n)


@triton.jit
def divide(e, s, y, n, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * B + tl.arange(0, B)
    tl.store(y + row * n + c, tl.load(e + row * n + c, mask=c < n) / tl.load(s + row), mask=c < n)


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        b, n = x.shape
        e = torch.empty_like(x)
        y = torch.empty_like(x)
        grid = (b, triton.cdiv(n, 2048))
        expo[grid](x, x.amax(dim=-1), e, n, B=2048)
        divide[grid](e, e.sum(dim=-1), y, n, B=2048)
        return y
