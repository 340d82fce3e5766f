"""Sends itself a signal that it handles."""

import os
import signal

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


signal.signal(signal.SIGUSR1, lambda *args: None)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        os.kill(os.getpid(), signal.SIGUSR1)
        return product(x, self.w, used)
