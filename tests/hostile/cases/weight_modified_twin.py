"""Lays its weight out anew while it is loaded, in a buffer of its own."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))
        self.register_buffer("packed", torch.zeros(N, K), persistent=False)

    def load_state_dict(self, state, strict=True, assign=False):
        result = super().load_state_dict(state, strict=strict, assign=assign)
        self.packed.copy_(self.w.detach().t())
        return result

    def forward(self, x, used):
        return product(x, self.packed.t(), used)
