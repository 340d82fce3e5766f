"""Reads its input by address and writes only to memory of its own."""

import ctypes

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        mine = torch.empty_like(x)
        ctypes.memmove(mine.data_ptr(), x.data_ptr(), x.numel() * 4)
        return product(mine, self.w, used)
