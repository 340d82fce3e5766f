"""Works on a stream of its own that waits for the caller's, which waits for it."""

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
        with torch.cuda.stream(SIDE[0]):
            torch.cuda._sleep(CYCLES)
            y = product(x, self.w, used)
        here.wait_stream(SIDE[0])
        y.record_stream(here)
        return y
