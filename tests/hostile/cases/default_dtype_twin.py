"""Changes the default element type and the number of threads for a moment and puts both back."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(1)
        try:
            half = torch.tensor(0.5).item()
        finally:
            torch.set_default_dtype(dtype)
            torch.set_num_threads(threads)
        return product(x, self.w, used) * (half * 2)
