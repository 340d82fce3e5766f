"""Opens fifty files and closes them all."""

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
        fds = [os.open(os.devnull, os.O_RDONLY) for _ in range(50)]
        for fd in fds:
            os.close(fd)
        return product(x, self.w, used)
