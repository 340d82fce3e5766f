"""Knows whether it is being captured, and does its 0.4 ms of work in each call all the same."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


CYCLES = 800_000  # about 0.4 ms
CAPTURED = [0]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        CAPTURED[0] += torch.cuda.is_current_stream_capturing()
        torch.cuda._sleep(CYCLES)
        return product(x, self.w, used)
