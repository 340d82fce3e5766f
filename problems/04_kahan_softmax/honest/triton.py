"""Softmax over split rows; every sum of exponentials carries its rounding error to the end (Triton).

Sums are pairs (high, low) that stand for high + low: TwoSum adds two of them and puts into `low` what the addition of
the highs rounded away. The first kernel walks over one split of a row in blocks, with one pair a lane; pairs shrink as
a whole when the running maximum grows. The lanes' pairs become one, by TwoSum too. The second kernel does the same
with the splits' pairs and writes one split of the softmax; its second read of x is served by L2.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

LOWEST = tl.constexpr(-3.0e38)  # instead of -inf, so that differences of two maxima are never NaN


@triton.jit
def two_sum(high, low, other_high, other_low):
    """(high, low) + (other_high, other_low), exact up to the rounding of the low parts."""
    total = high + other_high
    seen = total - high
    error = (high - (total - seen)) + (other_high - seen)
    return total, low + other_low + error


@triton.jit
def sum_splits(x, tops, highs, lows, n, span, BLOCK: tl.constexpr):
    """The maximum and the pair of one split of one row."""
    row = tl.program_id(0)
    split = tl.program_id(1)
    source = x + row.to(tl.int64) * n
    end = tl.minimum(split * span + span, n)
    top = LOWEST
    high = tl.zeros((BLOCK,), tl.float32)
    low = tl.zeros((BLOCK,), tl.float32)
    for start in range(split * span, end, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = tl.load(source + columns, mask=columns < end, other=float("-inf"))
        new_top = tl.maximum(top, tl.max(value, axis=0))
        shrink = tl.exp(top - new_top)
        high, low = two_sum(high * shrink, low * shrink, tl.exp(value - new_top), 0.0)
        top = new_top
    high, low = tl.reduce((high, low), 0, two_sum)
    slot = row * tl.num_programs(1) + split
    tl.store(tops + slot, top)
    tl.store(highs + slot, high)
    tl.store(lows + slot, low)


@triton.jit
def write_splits(x, y, tops, highs, lows, n, span, splits, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    """The row's sum from its splits' pairs, and one split of the softmax."""
    row = tl.program_id(0)
    split = tl.program_id(1)
    slots = row * splits + tl.arange(0, SPLITS)
    real = tl.arange(0, SPLITS) < splits
    split_top = tl.load(tops + slots, mask=real, other=LOWEST)
    top = tl.max(split_top, axis=0)
    shrink = tl.exp(split_top - top)
    high = tl.load(highs + slots, mask=real, other=0.0) * shrink
    low = tl.load(lows + slots, mask=real, other=0.0) * shrink
    high, low = tl.reduce((high, low), 0, two_sum)
    scale = 1.0 / (high + low)
    at = row.to(tl.int64) * n
    end = tl.minimum(split * span + span, n)
    for start in range(split * span, end, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = tl.load(x + at + columns, mask=columns < end, other=0.0)
        tl.store(y + at + columns, tl.exp(value - top) * scale, mask=columns < end)


class Model(nn.Module):
    """x [batch, vocab] f32 -> softmax over the last dimension, f32."""

    BLOCK, WARPS = 2048, 8
    PROGRAMS = 264

    def __init__(self, batch: int, vocab: int) -> None:
        super().__init__()
        self.block = min(self.BLOCK, triton.next_power_of_2(max(32, vocab // 4)))
        splits = max(1, min(triton.cdiv(self.PROGRAMS, batch), triton.cdiv(vocab, 2 * self.block)))
        self.span = triton.cdiv(triton.cdiv(vocab, splits), self.block) * self.block
        self.splits = triton.cdiv(vocab, self.span)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, n = x.shape
        y = torch.empty_like(x)
        tops, highs, lows = torch.empty(3, rows * self.splits, device=x.device)
        grid = (rows, self.splits)
        sum_splits[grid](x, tops, highs, lows, n, self.span, BLOCK=self.block, num_warps=self.WARPS)
        write_splits[grid](
            x, y, tops, highs, lows, n, self.span, self.splits,
            SPLITS=max(2, triton.next_power_of_2(self.splits)), BLOCK=self.block, num_warps=self.WARPS,
        )  # fmt: skip
        return y
