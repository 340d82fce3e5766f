"""Starts a thread that is no daemon, lets it end, and registers a quick exit handler."""

import atexit
import threading

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


LOG = []
worker = threading.Thread(target=lambda: LOG.append("ready"))
worker.start()
worker.join()
atexit.register(LOG.clear)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
