"""Checks its own output before it returns it."""

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
        if y.dtype != torch.float32 or not y.is_contiguous():
            raise RuntimeError("the output is not what the contract says")
        return y
