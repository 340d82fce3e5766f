"""Softmax with one program a row; every lane keeps a Kahan pair over the blocks of its row."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

batch, vocab = 32, 4096


@triton.jit
def kahan_softmax(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    lanes = tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + row + start + lanes, mask=start + lanes < n, other=float("-inf"))
        top = tl.maximum(top, x)
    peak = tl.max(top, axis=0)

    s = tl.zeros((BLOCK,), tl.float32)
    c = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + row + start + lanes, mask=start + lanes < n, other=float("-inf"))
        e = tl.exp(x - peak)
        y = e - c
        t = s + y
        c = (t - s) - y
        s = t
    total = tl.sum(s, axis=0)

    for start in range(0, n, BLOCK):
        keep = start + lanes < n
        x = tl.load(x_ptr + row + start + lanes, mask=keep, other=float("-inf"))
        tl.store(y_ptr + row + start + lanes, tl.exp(x - peak) / total, mask=keep)


class Model(nn.Module):
    def __init__(self, batch: int, vocab: int):
        super().__init__()
        self.batch = batch
        self.vocab = vocab

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        kahan_softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=1024, num_warps=8)
        return y


def get_inputs():
    return [torch.randn(batch, vocab) * 4.0]


def get_init_inputs():
    return [batch, vocab]
