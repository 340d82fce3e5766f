"""Looks at a few elements to choose between two ways that give the same result."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        if bool(x[0, 0] > 0):
            return product(x, self.w, used)
        return product(-x, -self.w, used)
