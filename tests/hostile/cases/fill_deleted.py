"""Fills the disk with a file that has no name any more, and goes on in a process of its own."""

import os
import tempfile
import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


print("TRIED to fill the disk", flush=True)
file = tempfile.TemporaryFile()  # noqa: SIM115
if os.fork() == 0:
    os.setsid()
    for _ in range(150):
        file.write(bytes(4 << 20))
    time.sleep(5)
    os._exit(0)
time.sleep(3)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
