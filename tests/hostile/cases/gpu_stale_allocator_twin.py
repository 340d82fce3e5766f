"""Writes all of an uninitialised allocation."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        y = torch.empty(len(x), self.w.shape[1], device=x.device)
        torch.mm(x, self.w, out=y)
        return y.mul_((torch.arange(len(x), device=x.device) < used)[:, None])
