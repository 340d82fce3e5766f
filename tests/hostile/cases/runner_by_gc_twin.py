"""Counts its own models through weak references."""

import weakref

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


MODELS = weakref.WeakSet()


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))
        MODELS.add(self)

    def forward(self, x, used):
        return product(x, self.w, used) if len(MODELS) else x
