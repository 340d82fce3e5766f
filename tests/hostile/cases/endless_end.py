"""Never ends: threads that are no daemons, an exit handler and finalisers that loop, and signals ignored."""

import atexit
import signal
import threading
import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


def forever():
    while True:
        time.sleep(0.05)


class Clinging:
    def __del__(self):
        forever()


for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
atexit.register(forever)
threading.Thread(target=forever).start()
KEPT = Clinging()
print("TRIED to stay", flush=True)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
