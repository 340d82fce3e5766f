"""Branches on values of inputs between products and sums that stand for the same result."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

CHUNKS = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def corrected(k, v, beta, o, lengths, T, H, C: tl.constexpr, D: tl.constexpr):
    rows, cols = tl.arange(0, C), tl.arange(0, D)
    first = (tl.program_id(1) // H * T + tl.program_id(0) * C + rows) * H + tl.program_id(1) % H
    at = first[:, None] * D + cols[None, :]
    key = tl.load(k + at).to(tl.float32) * tl.load(beta + first).to(tl.float32)[:, None]
    low = tl.where(rows[:, None] > rows[None, :], tl.dot(key, tl.trans(key)), 0.0)
    one = tl.where(rows[:, None] == rows[None, :], 1.0, 0.0)
    whole = one
    BRANCH
    tl.store(o + at, tl.dot(whole, tl.load(v + at).to(tl.float32)).to(tl.bfloat16))


class Model(nn.Module):
    def __init__(self, B, T, H, K, V, chunk_size):
        super().__init__()
        self.register_buffer("lengths", torch.full((B,), T, dtype=torch.int32), persistent=False)

    def forward(self, q, k, v, g, beta):
        B, T, H, D = v.shape
        o = torch.empty_like(v)
        corrected[(T // 64, B * H)](k, v, beta, o, self.lengths, T, H, C=64, D=D)
        return o
"""
SERIES = "whole = one - low + tl.dot(low, low)"
STEPS = "whole = one - low\n        whole += tl.dot(low, low)"
ADDED = "whole = tl.dot(low, low, one - low)"
SOLVED = """for i in range(1, C):
            row = tl.sum(tl.where(rows[:, None] == i, low, 0.0), axis=0)
            whole = tl.where(rows[:, None] == i, whole - tl.sum(row[:, None] * whole, axis=0)[None, :], whole)"""


def either(test: str, yes: str, no: str) -> str:
    """A branch of the kernel."""
    return f"if {test}:\n        {yes}\n    else:\n        {no}"


LARGEST = "tl.max(tl.sum(tl.abs(low), axis=1), axis=0)"
BRANCHES = {
    "a series for small pairs": (either(f"{LARGEST} < 4.0", SERIES, SOLVED), True),
    "a series that is added on for small pairs": (either(f"{LARGEST} < 4.0", ADDED, SOLVED), True),
    "a series in steps for small pairs": (either(f"{LARGEST} < 4.0", STEPS, SOLVED), True),
    "a series for small squares": (either("tl.sum(tl.sum(low * low, axis=1), axis=0) < 16.0", STEPS, SOLVED), True),
    "a series for small keys": (either("tl.max(tl.abs(tl.load(k + at))) < 1.0", SERIES, SOLVED), True),
    "solved for all": (SOLVED.replace("\n    ", "\n"), False),
    "solved for none that is zero": (either("tl.max(tl.abs(low)) == 0.0", "whole = one", SOLVED), False),
    "a series for one chunk": (either("T == 64", SERIES, SOLVED), False),
    "a series for zeros": (either("tl.max(tl.abs(low)) == 0.0", SERIES, SOLVED), False),
    "by a length": (either("tl.load(lengths) < 1024", SERIES, SOLVED), False),
}  # fmt: skip


@pytest.mark.parametrize("how", BRANCHES)
def test_products_instead_of_sums_for_some_values_are_steered_by_them(tmp_path: Path, how: str) -> None:
    branch, steered = BRANCHES[how]
    report = report_of(tmp_path, CHUNKS.replace("BRANCH", branch), "02_kda_cutlass")
    found = {f.leak_class for f in report.findings}
    assert ("input-magnitude-sniffing" in found) == steered, report.findings
