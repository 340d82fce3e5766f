"""Launches a kernel of a tenth of a second once."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


READY = []


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        if not READY:
            torch.cuda._sleep(200_000_000)
            READY.append(True)
        return product(x, self.w, used)
