"""Reads torch.cuda's version and availability, as a dispatcher does."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


KIND = "cuda" if torch.cuda.is_available() else "cpu"


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        if KIND == "cuda":
            torch.cuda.current_stream()
        return product(x, self.w, used)
