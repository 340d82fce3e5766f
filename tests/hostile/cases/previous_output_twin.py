"""Writes every result into one output buffer, as a captured graph does."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))
        self.register_buffer("y", torch.zeros(M, N), persistent=False)

    def forward(self, x, used):
        return self.y.copy_(product(x, self.w, used))
