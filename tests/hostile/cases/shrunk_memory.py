"""Shrinks, seals and unmaps the memory that it shares with the judge, so that the judge faults."""

import ctypes
import os
from pathlib import Path

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


LIBC = ctypes.CDLL(None, use_errno=True)


def ours():
    for name in os.listdir("/proc/self/fd"):
        if "memfd" in os.readlink(f"/proc/self/fd/{name}"):
            yield int(name)


def shrink():
    return [os.ftruncate(fd, 0) for fd in ours()]


def drop(x):
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "memfd" in line:
            first, last = (int(part, 16) for part in line.split()[0].split("-"))
            LIBC.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), 9)
    return False


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        y = product(x, self.w, used)
        attempt("shrink", shrink)
        attempt("drop the pages", drop, x)
        return y
