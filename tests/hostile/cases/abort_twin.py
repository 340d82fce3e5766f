"""Handles a signal for a moment and puts the handler back."""

import signal

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            return product(x, self.w, used)
        finally:
            signal.signal(signal.SIGINT, before)
