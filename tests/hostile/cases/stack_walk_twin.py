"""Asks for the line that it is at, for a log."""

import sys

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))
        print(sys._getframe().f_lineno, flush=True)

    def forward(self, x, used):
        return product(x, self.w, used)
