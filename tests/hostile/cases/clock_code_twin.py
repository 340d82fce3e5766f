"""Gives a function of its own another code object."""

import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


def scale():
    return 2.0


def one():
    return 1.0


scale.__code__ = one.__code__


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        time.sleep(0.004)
        return product(x, self.w, used) * scale()
