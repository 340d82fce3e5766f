"""Starts processes until it is stopped; 2000 would be too many."""

import os
import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


MOST = 2000
for made in range(MOST):
    try:
        pid = os.fork()
    except OSError as error:
        print(f"TRIED to fork: {error.strerror} after {made}", flush=True)
        break
    if pid == 0:
        os.setsid()
        time.sleep(20)
        os._exit(0)
else:
    print("BREACH 2000 processes", flush=True)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
