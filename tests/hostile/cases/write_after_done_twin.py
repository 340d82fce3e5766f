"""A thread goes on after the call and writes to a log of its own."""

import threading
import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


LOG = []


def later():
    time.sleep(0.004)
    LOG[:] = ["done"]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        threading.Thread(target=later, daemon=True).start()
        return product(x, self.w, used)
