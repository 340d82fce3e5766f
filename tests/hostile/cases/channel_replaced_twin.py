"""Writes a temporary file of its own."""

import tempfile

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        with tempfile.TemporaryFile() as mine:
            mine.write(b"notes")
        return product(x, self.w, used)
