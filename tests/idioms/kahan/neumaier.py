"""Softmax with Neumaier's variant: the larger addend decides which low part is kept; they join at the end."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

batch, vocab = 32, 4096


@triton.jit
def neumaier_softmax(inp, out, cols, WIDTH: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * cols
    offs = tl.arange(0, WIDTH)
    blocks = tl.cdiv(cols, WIDTH)

    peaks = tl.full([WIDTH], -float("inf"), tl.float32)
    for b in range(blocks):
        i = b * WIDTH + offs
        peaks = tl.maximum(peaks, tl.load(inp + base + i, mask=i < cols, other=-float("inf")))
    peak = tl.max(peaks, 0)

    running = tl.zeros([WIDTH], tl.float32)
    lost = tl.zeros([WIDTH], tl.float32)
    for b in range(blocks):
        i = b * WIDTH + offs
        term = tl.exp(tl.load(inp + base + i, mask=i < cols, other=-float("inf")) - peak)
        after = running + term
        lost += tl.where(tl.abs(running) >= tl.abs(term), (running - after) + term, (term - after) + running)
        running = after
    denom = tl.sum(running + lost, 0)

    for b in range(blocks):
        i = b * WIDTH + offs
        term = tl.exp(tl.load(inp + base + i, mask=i < cols, other=-float("inf")) - peak)
        tl.store(out + base + i, term / denom, mask=i < cols)


class Model(nn.Module):
    def __init__(self, batch: int, vocab: int):
        super().__init__()
        self.batch, self.vocab = batch, vocab

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        width = 1024 if self.vocab <= 32768 else 4096
        neumaier_softmax[(self.batch,)](x, y, self.vocab, WIDTH=width)
        return y


def get_inputs():
    return [torch.randn(batch, vocab) * 4.0]


def get_init_inputs():
    return [batch, vocab]
