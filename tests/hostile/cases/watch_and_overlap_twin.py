"""Keeps a worker thread that waits for work and is handed one call at a time."""

import queue
import threading
import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


ASKED, DONE = queue.Queue(), queue.Queue()


def serve():
    while True:
        x, w, used = ASKED.get()
        time.sleep(0.004)
        DONE.put(product(x, w, used))


threading.Thread(target=serve, daemon=True).start()


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        ASKED.put((x.detach(), self.w.detach(), used))
        return DONE.get()
