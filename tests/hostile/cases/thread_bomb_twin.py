"""Starts eight threads and joins them."""

import threading

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


THREADS = [threading.Thread(target=lambda: None) for _ in range(8)]
for thread in THREADS:
    thread.start()
for thread in THREADS:
    thread.join()


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
