"""A thread of its own does the 4 ms of work, and forward waits for it."""

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
        result = []

        def work():
            time.sleep(0.004)
            result.append(product(x.detach(), self.w.detach(), used))

        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
        return result[0]
