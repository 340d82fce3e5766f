"""Goes through complex numbers and resolves the view."""

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
        return torch.view_as_complex(torch.stack([torch.zeros_like(y), -y], -1)).conj().imag.resolve_neg().contiguous()
