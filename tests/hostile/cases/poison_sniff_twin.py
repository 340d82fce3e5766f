"""Keeps a pool of scratch buffers and writes them whole before it reads them."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


POOL = []


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        scratch = POOL.pop() if POOL and POOL[-1].shape == x.shape else torch.empty_like(x)
        scratch.copy_(x)
        y = product(scratch, self.w, used)
        POOL.append(scratch)
        return y
