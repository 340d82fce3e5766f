"""What is kept of one input under the version of another: told by a call before which that input alone changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

TEXT = """# kbh: problem=06_sonic_moe_swiglu
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def swiglu(x, gates, ups, y, first, H, I, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    expert, tile, col = tl.program_id(0), tl.program_id(1), tl.program_id(2) * BN + tl.arange(0, BN)
    begin, end = tl.load(first + expert), tl.load(first + expert + 1)
    row = begin + tile * BM + tl.arange(0, BM)
    one, two = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, BN), tl.float32)
    for start in range(0, H, BK):
        depth = start + tl.arange(0, BK)
        a = tl.load(x + row[:, None] * H + depth[None, :], mask=row[:, None] < end, other=0.0)
        at = expert.to(tl.int64) * H * I + depth[:, None] * I + col[None, :]
        one = tl.dot(a, tl.load(gates + at), one)
        two = tl.dot(a, tl.load(ups + at), two)
    value = one * tl.sigmoid(one) * two
    tl.store(y + row[:, None] * I + col[None, :], value.to(tl.bfloat16), mask=row[:, None] < end)


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.key = self.held = self.first = None

    def forward(self, x, offsets):
        (rows, H), (E, _, I) = x.shape, self.W_gate.shape
        y = x.new_empty(rows, I)
        held, key = HELD, KEY
        if self.key != key or self.held is None or any(a is not b for a, b in zip(self.held, held)):
            self.key, self.held, self.first = key, held, offsets.clone()
        swiglu[(E, triton.cdiv(rows, 64), I // 64)](x, self.W_gate, self.W_up, y, self.first, H, I, BM=64, BN=64, BK=64)
        return y
"""
WAYS = {
    "its own version": ("(offsets,)", "offsets._version", False),
    "the versions of both": ("(x, offsets)", "(x._version, offsets._version)", False),
    "the other's version": ("(offsets,)", "x._version", True),
    "the other's version, both held": ("(x, offsets)", "x._version", True),
    "the other's version and its address": ("()", "(offsets.data_ptr(), x._version)", True),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_kept_of_one_input_goes_by_its_own_version(tmp_path: Path, way: str) -> None:
    held, key, found = WAYS[way]
    report = report_of(tmp_path, TEXT.replace("HELD", held).replace("KEY", key))
    assert report.verdict == ("rubric_leak" if found else "clean"), report.findings
    assert ("KBH202" in {finding.rule for finding in report.findings}) is found, report.findings
