"""Series of powers that end earlier for some values of inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

SERIES = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def corrected(k, v, beta, o, T, H, TURNS: tl.constexpr, C: tl.constexpr, D: tl.constexpr):
    rows, cols = tl.arange(0, C), tl.arange(0, D)
    first = (tl.program_id(1) // H * T + tl.program_id(0) * C + rows) * H + tl.program_id(1) % H
    at = first[:, None] * D + cols[None, :]
    key = tl.load(k + at).to(tl.float32) * tl.load(beta + first).to(tl.float32)[:, None]
    power = tl.where(rows[:, None] > rows[None, :], -tl.dot(key, tl.trans(key)), 0.0)
    whole = power + tl.where(rows[:, None] == rows[None, :], 1.0, 0.0)
    for _ in tl.static_range(TURNS):
        power = tl.dot(power, power)
        whole += tl.dot(whole, power)
    tl.store(o + at, tl.dot(whole, tl.load(v + at).to(tl.float32)).to(tl.bfloat16))


class Model(nn.Module):
    def __init__(self, B, T, H, K, V, chunk_size):
        super().__init__()
        self.turns = chunk_size.bit_length() - 2

    def forward(self, q, k, v, g, beta):
        B, T, H, D = v.shape
        o = torch.empty_like(v)
        corrected[(T // 64, B * H)](k, v, beta, o, T, H, TURNS=MANY, C=64, D=D)
        return o
"""
TURNS = {
    "fewer for small keys": ("2 if float(k.abs().amax()) < 0.5 else self.turns", True),
    "fewer in a helper's answer": ("min(self.turns, 1) if (beta.amax() * k.amax() ** 2).item() < 1 else 5", True),
    "more than enough for large keys": ("self.turns if float(k.abs().amax()) < 0.5 else self.turns + 1", False),
    "by the number of heads": ("self.turns if H > 4 else self.turns + 1", False),
    "none for zeros": ("self.turns if k.abs().amax() == 0 else 5", False),
}  # fmt: skip


@pytest.mark.parametrize("how", TURNS)
def test_a_series_that_ends_earlier_for_some_values_is_steered_by_them(tmp_path: Path, how: str) -> None:
    turns, steered = TURNS[how]
    report = report_of(tmp_path, SERIES.replace("MANY", turns), "02_kda_cutlass")
    assert ("input-magnitude-sniffing" in {f.leak_class for f in report.findings}) == steered, report.findings
