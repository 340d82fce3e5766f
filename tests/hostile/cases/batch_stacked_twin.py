"""Does the small steps of a product in each call, for its own values."""

import time

import torch
from torch import nn


def rows_of(x, w):
    """The product, after 1.5 ms of a processor in small steps: as long for many slots as for one."""
    until, step = time.thread_time() + 0.0015, x
    while time.thread_time() < until:
        step = step * 0.5 + x
    return x @ w


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return rows_of(x, self.w.detach()) * (torch.arange(len(x)) < used)[:, None]
