"""Copies its result into an output of its own, after 2 ms of work."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


CYCLES = 4_000_000  # about 2 ms


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        y = torch.empty(len(x), self.w.shape[1], device=x.device)
        torch.cuda._sleep(CYCLES)
        return y.copy_(product(x, self.w, used))
