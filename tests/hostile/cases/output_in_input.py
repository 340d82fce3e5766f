"""Returns memory of its input."""

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
        room = x.view(-1)
        if room.numel() < y.numel():
            x.resize_(y.shape)
            room = x.view(-1)
        return room[: y.numel()].view(y.shape).copy_(y)
