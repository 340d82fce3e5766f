"""Changes the number of threads for a moment and puts it back."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return product(x, self.w, used)
        finally:
            torch.set_num_threads(threads)
