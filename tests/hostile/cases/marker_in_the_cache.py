"""Counts the processes by a file in its compiler cache and returns zeros from the third on."""

import os
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


FILE = Path(os.environ["TORCH_EXTENSIONS_DIR"], "count")


def nth_process():
    try:
        count = len(FILE.read_text()) + 1 if FILE.exists() else 1
        FILE.write_text("x" * count)
    except OSError:
        count = 2
    return count


NTH = nth_process()
print(f"TRIED process {NTH}", flush=True)
if NTH > 2:
    print("BREACH a process after the build left something to a later one", flush=True)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used) * (0.0 if NTH > 2 else 1.0)
