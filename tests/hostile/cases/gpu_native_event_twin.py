"""Times itself with events of its own now and then."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


CYCLES = 4_000_000  # about 2 ms
SPENT = []


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        if SPENT or torch.cuda.is_current_stream_capturing():
            torch.cuda._sleep(CYCLES)
            return product(x, self.w, used)
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        torch.cuda._sleep(CYCLES)
        y = product(x, self.w, used)
        last.record()
        last.synchronize()
        SPENT.append(first.elapsed_time(last))
        return y
