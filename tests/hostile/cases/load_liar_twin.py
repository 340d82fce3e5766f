"""Loads the judge's weights through a hook that only counts them."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


COUNT = []


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def load_state_dict(self, state, strict=True, assign=False):
        COUNT.append(len(state))
        return super().load_state_dict(state, strict=strict, assign=assign)

    def forward(self, x, used):
        return product(x, self.w, used)
