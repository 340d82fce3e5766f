"""Reads an environment variable and its own status."""

import os
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


THREADS = os.environ.get("OMP_NUM_THREADS", "1")
STATUS = Path("/proc/self/status").read_text().splitlines()[0]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
