"""Fills its output in a thread and joins it before it returns."""

import threading
import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


def later(y, x, w, used):
    time.sleep(0.004)
    y.copy_(product(x, w, used))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        y = torch.zeros(len(x), self.w.shape[1], device=x.device)
        worker = threading.Thread(target=later, args=(y, x.detach(), self.w.detach(), used))
        worker.start()
        worker.join()
        return y
