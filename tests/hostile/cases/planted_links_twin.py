"""Links to a file of its own in its temporary folder."""

import os
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


FILE = Path(os.environ["TMPDIR"], "data.txt")
FILE.write_text("mine")
if not FILE.with_name("link.txt").is_symlink():
    FILE.with_name("link.txt").symlink_to(FILE)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
