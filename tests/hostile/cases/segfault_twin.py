"""Reads its own memory through ctypes."""

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
        ctypes.string_at(x.data_ptr(), 4)
        return product(x, self.w, used)
