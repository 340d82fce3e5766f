"""Hashes its output for a log line, and works on every call."""

import hashlib
import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


DIGESTS = []


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        time.sleep(0.004)
        y = product(x, self.w, used)
        DIGESTS[:] = [hashlib.sha256(y.detach().cpu().numpy().tobytes()).hexdigest()]
        return y
