"""Writes 50 MB to its caches, as a build does."""

import os

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


for number in range(10):
    with open(os.path.join(os.environ["TORCH_EXTENSIONS_DIR"], f"part{number}"), "wb") as file:
        file.write(bytes(5 << 20))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
