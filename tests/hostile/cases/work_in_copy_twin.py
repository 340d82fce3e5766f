"""Has a copy function of its own that does 4 ms of work inside forward."""

import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


def copy_(target, source):
    time.sleep(0.004)
    return target.copy_(source)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        y = torch.empty(len(x), self.w.shape[1], device=x.device)
        return copy_(y, product(x, self.w, used))
