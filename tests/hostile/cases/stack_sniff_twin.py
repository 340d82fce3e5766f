"""Names its caller in a log line."""

import sys

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


LOG = []


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        LOG[:] = [f"called by {sys._getframe(1).f_code.co_name}"]
        return product(x, self.w, used)
