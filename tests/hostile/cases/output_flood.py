"""Prints without end while it works."""

import sys
import threading
import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


def flood():
    until = time.monotonic() + 3
    while time.monotonic() < until:
        try:
            sys.stdout.write("x" * 100000 + "\n")
        except OSError:
            return


threading.Thread(target=flood, daemon=True).start()
print("TRIED to flood", flush=True)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
