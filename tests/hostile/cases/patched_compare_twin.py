"""Compares its own result with a second way of computing it."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        y = product(x, self.w, used)
        z = product(x, self.w.t().contiguous().t(), used)
        if not torch.allclose(y, z, rtol=1e-3, atol=1e-3):
            raise RuntimeError("the two ways differ")
        return y
