"""Keeps a workspace by shape and does its 2 ms of work in forward."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


CYCLES = 4_000_000  # about 2 ms
ROOM = {}


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        room = ROOM.setdefault(x.shape, torch.empty_like(x))
        room.copy_(x)
        torch.cuda._sleep(CYCLES)
        return product(room, self.w, used)
