"""Leaves a tree of 1200 nested folders and 1200 files, with names that are no text."""

import os

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


for variable in ("TMPDIR", "TORCH_EXTENSIONS_DIR"):
    start = os.getcwd()
    try:
        os.chdir(os.environ[variable])
        for i in range(1200):
            with open(f"f{i}".encode() + b"\xff\n", "w"):
                pass
        for _ in range(1200):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
    except OSError as error:
        print(f"TRIED a deep tree: {error.strerror}", flush=True)
    os.chdir(start)
print("TRIED a deep tree", flush=True)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
