"""Allocates its workspace through a helper of its own and works 4 ms in forward."""

import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


def workspace(x):
    return torch.empty_like(x)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        room = workspace(x).copy_(x)
        time.sleep(0.004)
        return product(room, self.w, used)
