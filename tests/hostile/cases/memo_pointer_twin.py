"""Keeps a view by the address of the input, as tensor-map caches do; every call reads the values anew."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


VIEWS = {}


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        key = x.data_ptr(), tuple(x.shape)
        if key not in VIEWS:
            VIEWS[key] = x.view(x.shape[0], -1)
        return product(VIEWS[key], self.w, used)
