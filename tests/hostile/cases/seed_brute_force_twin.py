"""Sets a seed for tables of its own and puts the generator's state back."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        state = torch.get_rng_state()
        torch.manual_seed(42)
        self.w = nn.Parameter(torch.randn(K, N))
        torch.set_rng_state(state)

    def forward(self, x, used):
        return product(x, self.w, used)
