"""Splits the work of one call over two threads and joins both."""

import threading
import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        parts = {}

        def work(i, rows):
            time.sleep(0.004)
            parts[i] = rows @ self.w.detach()

        threads = [threading.Thread(target=work, args=(i, rows)) for i, rows in enumerate(x.detach().chunk(2))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return torch.cat([parts[i] for i in sorted(parts)]) * (torch.arange(len(x)) < used)[:, None]
