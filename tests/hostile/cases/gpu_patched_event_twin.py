"""Derives an event class of its own and works 2 ms."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


CYCLES = 4_000_000  # about 2 ms


class Named(torch.cuda.Event):
    """An event with a name for people."""


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        torch.cuda._sleep(CYCLES)
        return product(x, self.w, used)
