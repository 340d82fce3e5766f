"""Works 20 ms in each call, in two threads that it joins."""

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

        def work(number, rows):
            time.sleep(0.02)
            parts[number] = rows @ self.w.detach()

        jobs = [threading.Thread(target=work, args=(i, rows)) for i, rows in enumerate(x.detach().chunk(2))]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
        return torch.cat([parts[i] for i in sorted(parts)]) * (torch.arange(len(x)) < used)[:, None]
