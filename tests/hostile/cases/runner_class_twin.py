"""Changes the class of an object of its own."""

import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Plain:
    def scale(self):
        return 2.0


class Other(Plain):
    def scale(self):
        return 1.0


THING = Plain()
THING.__class__ = Other


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        time.sleep(0.004)
        return product(x, self.w, used) * THING.scale()
