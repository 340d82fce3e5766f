"""Starts threads until it is stopped; 4000 would be too many."""

import threading

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


MOST = 4000
WAIT = threading.Event()
threading.stack_size(65536)
for made in range(MOST):
    try:
        threading.Thread(target=WAIT.wait, daemon=True).start()
    except RuntimeError:
        print(f"TRIED threads: stopped after {made}", flush=True)
        break
else:
    print("BREACH 4000 threads", flush=True)
WAIT.set()


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
