"""A thread launches the work on the caller's stream and is joined."""

import threading

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


CYCLES = 4_000_000  # about 2 ms


def launch(found, stream, x, w, used):
    with torch.cuda.stream(stream), torch.no_grad():
        torch.cuda._sleep(CYCLES)
        found.append(product(x, w, used))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        found = []
        arguments = found, torch.cuda.current_stream(), x, self.w.detach(), used
        worker = threading.Thread(target=launch, args=arguments)
        worker.start()
        worker.join()
        return found[0]
