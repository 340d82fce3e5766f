"""Raises and handles an exception of its own."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Retry(Exception):
    """Another way must be taken."""


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        try:
            raise Retry("again")
        except Retry:
            return product(x, self.w, used)
