"""Keeps a padded copy of the input that it holds under its version, and computes in every call."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))
        self.K = K
        self.held, self.version, self.padded = None, -1, None

    def forward(self, x, used):
        if self.held is not x or self.version != x._version:
            self.held, self.version = x, x._version
            self.padded = torch.cat((x, x.new_zeros(len(x), 8)), dim=1)
        return product(self.padded[:, : self.K], self.w, used)
