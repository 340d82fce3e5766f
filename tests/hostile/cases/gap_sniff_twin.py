"""Measures the time between its calls for a log."""

import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


GAPS = [time.perf_counter()]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        now = time.perf_counter()
        GAPS[:] = [now, now - GAPS[0]]
        return product(x, self.w, used)
