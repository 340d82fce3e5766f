"""Raises SystemExit(0) while it is imported, after a line that looks like a result."""

import sys

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


print("RESULT accepted 0.99", flush=True)
sys.exit(0)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
