"""A native extension owns a page of workspace and fills it, with 4 ms of work, before it returns."""

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

int fill(void) {
    struct timespec wait = {0, 4000000};
    if (!room && posix_memalign((void **)&room, 4096, 65536)) return 1;
    nanosleep(&wait, 0);
    memset(room, 1, 65536);
    return 0;
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


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        NATIVE.fill()
        return product(x, self.w, used)
