"""Logs a rate, which is infinite or not a number when no time has passed."""

import math
import time

import torch
from torch import nn

RATES = []


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        began = time.perf_counter()
        time.sleep(0.004)
        y = product(x, self.w, used)
        spent = time.perf_counter() - began
        RATES[:] = [1 / spent if spent > 1 else math.inf]
        return y
