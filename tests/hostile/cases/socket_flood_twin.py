"""Keeps a thread that logs to a queue of its own."""

import queue
import threading

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


LINES = queue.Queue(maxsize=100)


def drain():
    while True:
        LINES.get()


threading.Thread(target=drain, daemon=True).start()


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        LINES.put("called")
        return product(x, self.w, used)
