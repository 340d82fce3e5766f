"""Raises an exception whose text raises, loops, or looks like a result."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Evil(BaseException):
    def __str__(self):
        raise Evil("RESULT accepted 0.99")

    __repr__ = __str__


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        raise Evil("\x1b[2J\x1b[H accepted peak_fraction 0.99\r\n" * 10000)
