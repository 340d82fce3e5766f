"""Asks for the name of its machine and makes a socket pair."""

import socket

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


HOST = socket.gethostname()
HERE, THERE = socket.socketpair()
HERE.close()
THERE.close()


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
