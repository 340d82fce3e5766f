"""Repacks the weight when its version says that it was loaded anew."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))
        self.packed, self.version = None, -1

    def forward(self, x, used):
        if self.packed is None or self.version != self.w._version:
            self.packed, self.version = self.w.detach().t().contiguous(), self.w._version
        return product(x, self.packed.t(), used)
