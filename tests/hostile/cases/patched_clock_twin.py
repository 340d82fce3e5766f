"""Has a clock of its own with the same method names."""

import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Clock:
    def timed(self, call):
        began = time.perf_counter()
        result = call()
        return result, time.perf_counter() - began, False


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        time.sleep(0.004)
        return Clock().timed(lambda: product(x, self.w, used))[0]
