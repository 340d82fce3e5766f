"""Collects garbage, and counts the tensors that it holds."""

import gc

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        gc.collect()
        held = sum(1 for thing in gc.get_objects() if type(thing) is torch.Tensor)
        return product(x, self.w, used) * (1.0 if held >= 0 else 0.0)
