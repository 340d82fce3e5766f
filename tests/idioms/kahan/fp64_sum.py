"""Softmax that sums the exponentials in double precision, which needs no compensation term."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

batch, vocab = 32, 4096


@triton.jit
def wide_softmax(x_ptr, y_ptr, n, BLOCK: tl.constexpr, ACC: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * n
    lanes = tl.arange(0, BLOCK)
    peak = -3.0e38
    for i in range(0, n, BLOCK):
        x = tl.load(x_ptr + start + i + lanes, mask=i + lanes < n, other=-3.0e38)
        peak = tl.maximum(peak, tl.max(x, axis=0))
    acc = tl.zeros((BLOCK,), dtype=ACC)
    for i in range(0, n, BLOCK):
        x = tl.load(x_ptr + start + i + lanes, mask=i + lanes < n, other=-3.0e38)
        acc += tl.exp(x - peak).to(ACC)
    scale = (1.0 / tl.sum(acc, axis=0)).to(tl.float32)
    for i in range(0, n, BLOCK):
        x = tl.load(x_ptr + start + i + lanes, mask=i + lanes < n, other=0.0)
        tl.store(y_ptr + start + i + lanes, tl.exp(x - peak) * scale, mask=i + lanes < n)


class Model(nn.Module):
    def __init__(self, batch: int, vocab: int):
        super().__init__()
        self.batch, self.vocab = batch, vocab

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, n = x.shape
        y = torch.empty_like(x)
        wide_softmax[(rows,)](x, y, n, BLOCK=1024, ACC=tl.float64, num_warps=8)
        return y


def get_inputs():
    return [torch.randn(batch, vocab) * 4.0]


def get_init_inputs():
    return [batch, vocab]
