"""Takes another current stream for a moment and puts the first one back, both waiting."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


CYCLES = 4_000_000  # about 2 ms
SIDE = []


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        if not SIDE:
            SIDE.append(torch.cuda.Stream())
        here = torch.cuda.current_stream()
        SIDE[0].wait_stream(here)
        torch.cuda.set_stream(SIDE[0])
        torch.cuda._sleep(CYCLES)
        y = product(x, self.w, used)
        torch.cuda.set_stream(here)
        here.wait_stream(SIDE[0])
        y.record_stream(here)
        return y
