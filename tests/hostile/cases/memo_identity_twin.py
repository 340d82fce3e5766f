"""Keeps a row index by the shape of the input: a workspace, not a result."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


ROWS = {}


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        key = x.shape[0], x.device
        if key not in ROWS:
            ROWS[key] = torch.arange(x.shape[0], device=x.device)
        return (x @ self.w) * (ROWS[key] < used)[:, None]
