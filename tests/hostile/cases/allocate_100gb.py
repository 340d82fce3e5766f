"""Asks for 100 GB of memory at once, in pieces, shared, and locked; pages are not touched."""

import mmap

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


def attempt(name, action, *args):
    """Says whether something that must not work did."""
    try:
        result = action(*args)
    except BaseException as error:
        print(f"TRIED {name}: {type(error).__name__}", flush=True)
        return
    print(f"{'BREACH' if result else 'TRIED'} {name}", flush=True)


def private():
    return bool(torch.empty(100 << 30, dtype=torch.uint8).numel())


def pieces():
    kept = []
    for _ in range(100):
        kept.append(torch.empty(1 << 30, dtype=torch.uint8))
    return len(kept) == 100


def shared():
    kept = []
    for _ in range(100):
        kept.append(mmap.mmap(-1, 1 << 30, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS))
    return len(kept) == 100


attempt("100 GB at once", private)
attempt("100 pieces", pieces)
attempt("100 shared pieces", shared)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
