"""Writes 50 MB to a temporary file without a name, and reads them back."""

import tempfile

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


with tempfile.TemporaryFile() as file:
    for _ in range(10):
        file.write(bytes(5 << 20))
    file.seek(0)
    assert not any(file.read(1 << 20))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
