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


print("TRIED to flood", flush=True)  # before it, or it may be among what the log has no room for
threading.Thread(target=flood, daemon=True).start()


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
