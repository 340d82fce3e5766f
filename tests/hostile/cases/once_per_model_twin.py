"""Transposes the weight once for each model, in the first call."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))
        self.packed = None

    def forward(self, x, used):
        if self.packed is None:
            self.packed = self.w.detach().t().contiguous()
        return product(x, self.packed.t(), used)
