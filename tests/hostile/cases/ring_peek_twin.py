"""Keeps the addresses that it was called with, to log how many there are."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


ADDRESSES = set()


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        ADDRESSES.add(x.data_ptr())
        return product(x, self.w, used)
