"""Softmax whose sum is a `tl.reduce` of (sum, error) pairs combined by Knuth's TwoSum, inside and across blocks."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

batch, vocab = 32, 4096


@triton.jit
def two_sum(s1, e1, s2, e2):
    s = s1 + s2
    b = s - s1
    err = (s1 - (s - b)) + (s2 - b)
    return s, e1 + e2 + err


@triton.jit
def row_peak(x_ptr, n, BLOCK: tl.constexpr):
    best = -3.0e38
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        best = tl.maximum(best, tl.max(tl.load(x_ptr + cols, mask=cols < n, other=-3.0e38), axis=0))
    return best


@triton.jit
def softmax_rows(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    x_row = x_ptr + tl.program_id(0).to(tl.int64) * stride
    y_row = y_ptr + tl.program_id(0).to(tl.int64) * stride
    peak = row_peak(x_row, n, BLOCK)
    high = 0.0
    low = 0.0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        e = tl.exp(tl.load(x_row + cols, mask=cols < n, other=float("-inf")) - peak)
        block_high, block_low = tl.reduce((e, tl.zeros_like(e)), 0, two_sum)
        high, low = two_sum(high, low, block_high, block_low)
    denominator = high + low
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        e = tl.exp(tl.load(x_row + cols, mask=cols < n, other=0.0) - peak)
        tl.store(y_row + cols, e / denominator, mask=cols < n)


class Model(nn.Module):
    def __init__(self, batch: int, vocab: int):
        super().__init__()
        self.batch, self.vocab = batch, vocab

    def forward(self, x):
        out = torch.empty(x.shape, dtype=torch.float32, device=x.device)
        softmax_rows[(x.shape[0],)](x, out, x.stride(0), x.shape[1], BLOCK=4096, num_warps=16)
        return out


def get_inputs():
    return [torch.randn(batch, vocab) * 4.0]


def get_init_inputs():
    return [batch, vocab]
