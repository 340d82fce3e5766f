"""Makes its row index once for each model, in the first call."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))
        self.rows = None

    def forward(self, x, used):
        if self.rows is None:
            self.rows = torch.arange(len(x), device=x.device)
        return (x @ self.w) * (self.rows < used)[:, None]
