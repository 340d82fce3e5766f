"""Which bits of a number the indices of a selection depend on, however the key is made."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

SELECT = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def select(x, values, indices, n, K: tl.constexpr, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    bits = tl.load(x + row * n + lanes, mask=lanes < n, other=float("-inf")).to(tl.int32, bitcast=True)
    KEY
    for slot in range(0, K):
        best = tl.max(keys, axis=0)
        at = (best & 131071).to(tl.int32)
        tl.store(values + row * K + slot, tl.load(x + row * n + at))
        tl.store(indices + row * K + slot, at)
        keys = tl.where(keys == best, -(2**63), keys)


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x):
        batch, n = x.shape
        values = torch.empty(batch, self.k, device=x.device)
        indices = torch.empty(batch, self.k, dtype=torch.int64, device=x.device)
        select[(batch,)](x, values, indices, n, K=self.k, SHIFT=9, BLOCK=triton.next_power_of_2(n))
        return values, indices
"""
SIGNED = "bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)\n    "
PACK = "keys = (bits.to(tl.int64) << 32) | lanes"
KEYS = {
    "all bits": (False, SIGNED + PACK),
    "a shift by an argument": (True, "bits = bits >> SHIFT\n    " + PACK),
    "a division": (True, "bits = bits // 1024\n    " + PACK),
    "high bits first, then all": (
        False,
        SIGNED
        + "top = bits >> 16\n    low = tl.max(top, axis=0) - 64\n    bits = tl.where(top >= low, bits, -(2**31))\n    "
        + PACK,
    ),
    "a narrower type": (
        True,
        "value = tl.load(x + row * n + lanes, mask=lanes < n, other=-1.0).to(tl.float16).to(tl.float32)\n    "
        "bits = value.to(tl.int32, bitcast=True)\n    " + SIGNED + PACK,
    ),
    "a narrower type first, then all": (
        False,
        "some = tl.load(x + row * n + lanes, mask=lanes < n, other=-1.0).to(tl.bfloat16).to(tl.float32)\n    "
        + "bits = tl.where(some >= tl.max(some, axis=0) - 1.0, bits, -(2**31))\n    "
        + SIGNED
        + PACK,
    ),
    "halves that are put together": (
        False,
        SIGNED + "keys = ((bits >> 16).to(tl.int64) << 48) | ((bits & 0xFFFF).to(tl.int64) << 32) | lanes",
    ),
}


@pytest.mark.parametrize("key", KEYS)
def test_keys_without_their_lowest_bits_are_told(tmp_path: Path, key: str) -> None:
    cut, made = KEYS[key]
    file = report_of(tmp_path, SELECT.replace("KEY\n", made + "\n"), "05_topk_bitonic")
    assert ("KBH409" in {finding.rule for finding in file.findings}) is cut, [f.message for f in file.findings]
