"""Copies its result with a function of its own that another module's name stands for."""

import types

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


def copied(tensor):
    return torch.empty_like(tensor).copy_(tensor)


own = types.ModuleType("own")
own.copied = copied


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return own.copied(product(x, self.w, used))
