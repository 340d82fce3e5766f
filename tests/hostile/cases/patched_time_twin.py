"""Reads the clock around its work, for a log."""

import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


SPENT = []


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        began = time.perf_counter()
        time.sleep(0.004)
        y = product(x, self.w, used)
        SPENT[:] = [time.perf_counter() - began]
        return y
