"""Takes a gigabyte of workspace, handles a refusal, and gives it back."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


READY = []


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        if not READY:
            try:
                torch.empty(1 << 30, dtype=torch.uint8, device=x.device)
            except torch.cuda.OutOfMemoryError:
                torch.cuda.empty_cache()
            READY.append(True)
        return product(x, self.w, used)
