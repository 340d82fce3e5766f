"""Is right at one shape and raises at the other."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        if self.w.shape[1] > self.w.shape[0] * 2:
            raise RuntimeError("no configuration for this shape")
        return product(x, self.w, used)
