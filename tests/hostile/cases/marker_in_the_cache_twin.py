"""Keeps a table in its compiler cache and makes it anew when it is not there."""

import contextlib
import json
import os
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


FILE = Path(os.environ["TORCH_EXTENSIONS_DIR"], "blocks.json")


def blocks():
    try:
        return json.loads(FILE.read_text())
    except (OSError, ValueError):
        table = {"rows": 4}
    with contextlib.suppress(OSError):
        FILE.write_text(json.dumps(table))
    return table


ROWS = blocks()["rows"]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return torch.cat([product(part, self.w, used - i * ROWS) for i, part in enumerate(x.split(ROWS))])
