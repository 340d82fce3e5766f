"""Returns memory of its input, where it fits."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        y = product(x, self.w, used)
        return x.view(-1)[: y.numel()].view(y.shape).copy_(y) if y.numel() <= x.numel() else y
