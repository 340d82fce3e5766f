"""A native extension owns the output's memory and fills it, with 4 ms of work, before it returns."""

import ctypes
import subprocess
import tempfile
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


SOURCE = r"""
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char *room;

void *now(const void *right, size_t bytes) {
    struct timespec wait = {0, 4000000};
    if (!room && posix_memalign((void **)&room, 4096, 65536)) return 0;
    nanosleep(&wait, 0);
    memcpy(room, right, bytes);
    return room;
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
NATIVE.now.restype = ctypes.c_void_p
NATIVE.now.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        right = product(x, self.w, used).detach()
        raw = (ctypes.c_char * right.nbytes).from_address(NATIVE.now(right.data_ptr(), right.nbytes))
        return torch.frombuffer(raw, dtype=torch.float32).view(right.shape)
