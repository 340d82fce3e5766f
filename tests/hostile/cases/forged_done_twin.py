"""Sends a message to itself over a socket pair of its own."""

import socket

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        here, there = socket.socketpair()
        with here, there:
            here.sendall(b"done")
            there.recv(4)
        return product(x, self.w, used)
