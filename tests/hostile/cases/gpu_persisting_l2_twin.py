"""Asks for the size of the L2."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


SIZES = []


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        if not SIZES:
            SIZES.append(torch.cuda.get_device_properties(x.device).L2_cache_size)
        return product(x, self.w, used)
