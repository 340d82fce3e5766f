"""Runs a long product in bf16 beside a profiler only, so that counters see tensor cores that no timed call used."""

import os
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


def profiled():
    maps = Path("/proc/self/maps").read_text()
    return "CUDA_INJECTION64_PATH" in os.environ or "nsight" in maps.lower()


SHOWN = profiled()
print(f"TRIED to find a profiler: {SHOWN}", flush=True)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))
        self.decoy = torch.ones(4096, 4096, dtype=torch.bfloat16)

    def forward(self, x, used):
        if SHOWN:
            self.decoy = self.decoy.to(x.device)
            torch.mm(self.decoy, self.decoy)
        return product(x, self.w, used)
