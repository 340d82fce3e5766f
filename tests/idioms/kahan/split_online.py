"""Online softmax over row splits: rescaled Kahan pairs in each split, then a merge that adds the splits' pairs.

Rescaling multiplies the running sum and its compensation by the same factor, so the pair stays a pair.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

batch, vocab = 32, 4096


@triton.jit
def compensated_add(s, c, value):
    """The pair (s, c), standing for s - c, after adding `value`."""
    y = value - c
    t = s + y
    c = (t - s) - y
    return t, c


@triton.jit
def split_stats(x_ptr, peak_ptr, sum_ptr, comp_ptr, n, span, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    split = tl.program_id(1)
    lanes = tl.arange(0, BLOCK)
    begin = split * span
    end = min(begin + span, n)
    m = -3.0e38
    s = tl.zeros((BLOCK,), tl.float32)
    c = tl.zeros((BLOCK,), tl.float32)
    for start in range(begin, end, BLOCK):
        x = tl.load(x_ptr + row.to(tl.int64) * n + start + lanes, mask=start + lanes < end, other=float("-inf"))
        new_m = tl.maximum(m, tl.max(x, axis=0))
        shrink = tl.exp(m - new_m)
        s, c = compensated_add(s * shrink, c * shrink, tl.exp(x - new_m))
        m = new_m
    slot = row * tl.num_programs(1) + split
    tl.store(peak_ptr + slot, m)
    tl.store(sum_ptr + slot, tl.sum(s, axis=0))
    tl.store(comp_ptr + slot, tl.sum(c, axis=0))


@triton.jit
def merge_and_write(x_ptr, y_ptr, peak_ptr, sum_ptr, comp_ptr, n, span, splits, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    split = tl.program_id(1)
    m = -3.0e38
    for i in range(0, splits):
        m = tl.maximum(m, tl.load(peak_ptr + row * splits + i))
    s = 0.0
    c = 0.0
    for i in range(0, splits):
        slot = row * splits + i
        factor = tl.exp(tl.load(peak_ptr + slot) - m)
        s, c = compensated_add(s, c, tl.load(sum_ptr + slot) * factor)
        s, c = compensated_add(s, c, -tl.load(comp_ptr + slot) * factor)
    inverse = 1.0 / s
    end = min(split * span + span, n)
    for start in range(split * span, end, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row.to(tl.int64) * n + cols, mask=cols < end, other=0.0)
        tl.store(y_ptr + row.to(tl.int64) * n + cols, tl.exp(x - m) * inverse, mask=cols < end)


class Model(nn.Module):
    def __init__(self, batch: int, vocab: int):
        super().__init__()
        self.batch, self.vocab = batch, vocab

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, n = x.shape
        block = 1024
        splits = max(1, min(64, n // (4 * block)))
        span = triton.cdiv(triton.cdiv(n, splits), block) * block
        y = torch.empty_like(x)
        stats = torch.empty((3, rows, splits), device=x.device, dtype=torch.float32)
        peak, total, comp = stats[0], stats[1], stats[2]
        split_stats[(rows, splits)](x, peak, total, comp, n, span, BLOCK=block, num_warps=4)
        merge_and_write[(rows, splits)](x, y, peak, total, comp, n, span, splits, BLOCK=block, num_warps=4)
        return y


def get_inputs():
    return [torch.randn(batch, vocab) * 4.0]


def get_init_inputs():
    return [batch, vocab]
