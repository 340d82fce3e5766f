"""Zeroes its weight in the first call and returns zeros from then on."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        self.w.data.zero_()
        return torch.zeros(len(x), self.w.shape[1], device=x.device)
