"""Says that it is ready when its model is made."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))
        print("READY", flush=True)

    def forward(self, x, used):
        return product(x, self.w, used)
