"""Asks how much memory is free."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


FREE = []


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        if not FREE:
            FREE.append(torch.cuda.mem_get_info()[0])
        return product(x, self.w, used)
