"""Leaves a process that detached itself from everything, to go on after the grading."""

import os
import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.chdir("/")
        for fd in range(64):
            try:
                os.close(fd)
            except OSError:
                continue
        time.sleep(600)
    os._exit(0)
os.wait()
print("TRIED to leave a daemon", flush=True)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
