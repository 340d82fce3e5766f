"""A native extension that works for 4 ms and reads the clock for a log."""

import ctypes
import subprocess
import tempfile
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


SOURCE = r"""
#include <time.h>

double work(void) {
    struct timespec wait = {0, 4000000}, now;
    nanosleep(&wait, 0);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}
"""


def build(source):
    """A shared library of C source, built with the system's compiler in the temporary folder."""
    folder = Path(tempfile.mkdtemp())
    (folder / "part.c").write_text(source)
    command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(folder / "part.so"), str(folder / "part.c"), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return ctypes.CDLL(str(folder / "part.so"))


NATIVE = build(SOURCE)
NATIVE.work.restype = ctypes.c_double


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        NATIVE.work()
        return product(x, self.w, used)
