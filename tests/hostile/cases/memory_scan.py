"""Computes the answer and then looks for it in all memory that it shares with the judge."""

import ctypes
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


def shared_regions():
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, mode, *_ = line.split()
        if mode.endswith("s") and mode.startswith("r"):
            first, last = (int(part, 16) for part in span.split("-"))
            yield first, min(last - first, 1 << 26)


DONE = []


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        y = product(x, self.w, used)
        needle = y.detach().cpu().numpy().tobytes()[:24]
        regions = list(shared_regions())
        if any(needle in ctypes.string_at(*region) for region in regions) and any(needle):
            print("BREACH the answer lay in shared memory before it was computed", flush=True)
        if not DONE:
            print(f"TRIED {len(regions)} regions", flush=True)
            DONE.append(True)
        return y
