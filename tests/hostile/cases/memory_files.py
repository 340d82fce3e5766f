"""Fills memory that counts as files: memory files, /dev/shm and temporary folders; 3 GB would be too much."""

import os
import tempfile

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


def fill(open_one):
    """Whether 3 GB can be had, in steps of 64 MB."""
    fd = open_one()
    try:
        for step in range(48):
            os.posix_fallocate(fd, step << 26, 1 << 26)
        return True
    finally:
        os.close(fd)


def temporary(folder):
    fd, name = tempfile.mkstemp(dir=folder)
    os.unlink(name)
    return fd


attempt("a memory file", fill, lambda: os.memfd_create("mine"))
attempt("/dev/shm", fill, lambda: temporary("/dev/shm"))
attempt("/tmp", fill, lambda: temporary("/tmp"))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
