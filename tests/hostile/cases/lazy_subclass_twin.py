"""Uses a tensor subclass inside and returns a plain tensor."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Tagged(torch.Tensor):
    """A tensor with a name for people."""


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        tagged = x.as_subclass(Tagged)
        return product(tagged, self.w.detach(), used).as_subclass(torch.Tensor)
