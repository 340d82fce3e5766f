"""Leaves out a log line when it is being captured."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


LOG = []


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        if not torch.cuda.is_current_stream_capturing():
            LOG[:] = [x.shape]
        return product(x, self.w, used)
