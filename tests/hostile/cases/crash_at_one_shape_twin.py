"""Tries a way that fails at one shape, and has another."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        try:
            if self.w.shape[1] > self.w.shape[0] * 2:
                raise RuntimeError("no configuration for this shape")
            return product(x, self.w, used)
        except RuntimeError:
            return product(x.contiguous(), self.w, used)
