"""Asks for 100 GB in forward and does not handle the refusal."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        room = torch.empty(100 << 30, dtype=torch.uint8)
        return product(x, self.w, used) + room[0]
