"""Fills the disk with many files in its caches, none of them large."""

import os
import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


print("TRIED to fill the disk", flush=True)
for number in range(150):
    with open(os.path.join(os.environ["TORCH_EXTENSIONS_DIR"], f"part{number}"), "wb") as file:
        file.write(bytes(4 << 20))
time.sleep(3)  # it holds them for as long as it may


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
