"""Branches on values of inputs between a plain and a compensated sum, by the host, a kernel or its functions."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

SUMS = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def peaks(x, top, n, BLOCK: tl.constexpr):
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    peak = tl.full((BLOCK,), -float("inf"), tl.float32)
    for start in range(0, n, BLOCK):
        peak = tl.maximum(peak, tl.load(x + row * n + start + lane, mask=start + lane < n, other=-float("inf")))
    tl.store(top + row, tl.max(peak, 0))


@triton.jit
def rows(x, y, top, n, KEEP: tl.constexpr, BLOCK: tl.constexpr):
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    peak = tl.load(top + row)
    total = tl.zeros((BLOCK,), tl.float32)
    lost = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        term = tl.exp(tl.load(x + row * n + start + lane, mask=start + lane < n, other=-float("inf")) - peak)
        if KEEP:
            term -= lost
            more = total + term
            lost = (more - total) - term
            total = more
        else:
            total += term
    whole = tl.sum(total, 0) - tl.sum(lost, 0)
    for start in range(0, n, BLOCK):
        value = tl.load(x + row * n + start + lane, mask=start + lane < n, other=0.0)
        tl.store(y + row * n + start + lane, tl.exp(value - peak) / whole, mask=start + lane < n)


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        top, y = torch.empty(x.shape[0], device=x.device), torch.empty_like(x)
        peaks[(x.shape[0],)](x, top, x.shape[1], BLOCK=512)
        KERNEL
        return y
"""
GIVEN = "(x, y, top, x.shape[1], "
KERNELS = {
    "care where it shows": (f"rows[(x.shape[0],)]{GIVEN}KEEP=True if top.max() > 20 else False, BLOCK=512)", True),
    "plain where all is small": (
        f"keep = True\n        if x.abs().amax().item() < 12:\n            keep = False\n"
        f"        rows[(x.shape[0],)]{GIVEN}KEEP=keep, BLOCK=512)", True,
    ),
    "other tiles by value": (f"rows[(x.shape[0],)]{GIVEN}KEEP=True, BLOCK=256 if top.max() > 20 else 512)", False),
    "care by the length of a row": (f"rows[(x.shape[0],)]{GIVEN}KEEP=x.shape[1] > 4096, BLOCK=512)", False),
}  # fmt: skip


@pytest.mark.parametrize("how", KERNELS)
def test_a_sum_that_is_plain_for_some_values_is_steered_by_them(tmp_path: Path, how: str) -> None:
    text, steered = KERNELS[how]
    report = report_of(tmp_path, SUMS.replace("KERNEL", text), "04_kahan_softmax")
    assert ("input-magnitude-sniffing" in {f.leak_class for f in report.findings}) == steered, report.findings


TERM = "tl.exp(tl.load(x + row * n + start + lane, mask=start + lane < n, other=-float('inf')) - peak)"
LOOP = "for start in range(0, n, BLOCK):"
CAREFULLY = f"""        {LOOP}
            term = {TERM} - lost
            more = total + term
            lost = (more - total) - term
            total = more
"""
NEUMAIER = f"""        {LOOP}
            term = {TERM}
            more = total + term
            lost -= tl.where(tl.abs(total) >= tl.abs(term), (total - more) + term, (term - more) + total)
            total = more
"""
PLAINLY = f"""        {LOOP}
            total += {TERM}
"""
NOTHING = f"""        {LOOP}
            tl.store(y + row * n + start + lane, tl.zeros((BLOCK,), tl.float32), mask=start + lane < n)
        return
"""
LOW = "    low = tl.min(tl.load(x + row * n + lane), 0)\n"
IN_KERNELS = {
    "plain where values are far apart": (f"{LOW}    if peak - low < 20:\n{CAREFULLY}    else:\n{PLAINLY}", True),
    "plain where the largest is small": (f"    if peak < 3.0:\n{PLAINLY}    else:\n{CAREFULLY}", True),
    "two ways to take care": (f"    if peak < 3.0:\n{NEUMAIER}    else:\n{CAREFULLY}", False),
    "a row without any number": (f"    if peak == -float('inf'):\n{NOTHING}    else:\n{CAREFULLY}", False),
    "plain both": (f"    if peak < 3.0:\n{PLAINLY}    else:\n{PLAINLY}", False),
    "by the length of a row": (f"    if n > 4096:\n{CAREFULLY}    else:\n{PLAINLY}", False),
    "terms that are nothing": (
        f"    {LOOP}\n        term = {TERM}\n        if tl.max(term, 0) > 0:\n            term -= lost\n"
        "            more = total + term\n            lost = (more - total) - term\n            total = more\n", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", IN_KERNELS)
def test_a_kernel_that_sums_plainly_for_some_values_is_steered_by_them(tmp_path: Path, how: str) -> None:
    body, steered = IN_KERNELS[how]
    begin, rest = SUMS.split("    lost = tl.zeros((BLOCK,), tl.float32)\n")
    end = rest[rest.index("    whole = ") :]
    text = f"{begin}    lost = tl.zeros((BLOCK,), tl.float32)\n{body}{end}"
    text = text.replace("KERNEL", f"rows[(x.shape[0],)]{GIVEN}KEEP=True, BLOCK=512)")
    report = report_of(tmp_path, text, "04_kahan_softmax")
    assert ("input-magnitude-sniffing" in {f.leak_class for f in report.findings}) == steered, report.findings


FUNCTIONS = f"""@triton.jit
def carefully(x, row, n, peak, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    total, lost = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
{CAREFULLY.replace("        " + LOOP, "    " + LOOP)}    return total, lost


@triton.jit
def plainly(x, row, n, peak, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
{PLAINLY.replace("        " + LOOP, "    " + LOOP)}    return total


"""
CALLED = "total, lost = carefully(x, row, n, peak, BLOCK)"
IN_FUNCTIONS = {
    "plain where the largest is small": (
        f"    if peak < 3.0:\n        total = plainly(x, row, n, peak, BLOCK)\n    else:\n        {CALLED}\n", True
    ),
    "by the length of a row": (
        f"    if n > 4096:\n        total = plainly(x, row, n, peak, BLOCK)\n    else:\n        {CALLED}\n", False
    ),
    "a merge by size": (
        f"    {CALLED}\n    high, low = tl.sum(total, 0), tl.sum(lost, 0)\n"
        "    if tl.abs(high) >= tl.abs(low):\n        high = high - low\n    else:\n        high = -(low - high)\n"
        "    total, lost = tl.where(lane == 0, high, 0.0), tl.zeros((BLOCK,), tl.float32)\n", False
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", IN_FUNCTIONS)
def test_functions_that_a_kernel_calls_for_some_values_are_its_sums(tmp_path: Path, how: str) -> None:
    body, steered = IN_FUNCTIONS[how]
    begin, rest = SUMS.split("    lost = tl.zeros((BLOCK,), tl.float32)\n")
    text = f"{begin}    lost = tl.zeros((BLOCK,), tl.float32)\n{body}{rest[rest.index('    whole = ') :]}"
    text = text.replace("KERNEL", f"rows[(x.shape[0],)]{GIVEN}KEEP=True, BLOCK=512)")
    report = report_of(tmp_path, text.replace("@triton.jit", FUNCTIONS + "@triton.jit", 1), "04_kahan_softmax")
    assert ("input-magnitude-sniffing" in {f.leak_class for f in report.findings}) == steered, report.findings


PIECES = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def two_sum(a, b, c, d):
    more = a + c
    back = more - a
    return more, b + d + ((a - (more - back)) + (c - back))


@triton.jit
def peaks(x, peak, vocab, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    tl.store(peak + row * PARTS + part, tl.max(tl.load(x + row * vocab + part * BLOCK + tl.arange(0, BLOCK)), 0))


@triton.jit
def sums(x, peak, total, vocab, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    top = tl.max(tl.load(peak + row * PARTS + tl.arange(0, PARTS)), 0)
    e = tl.exp(tl.load(x + row * vocab + part * BLOCK + tl.arange(0, BLOCK)) - top)
    at = total + (row * PARTS + part) * 2
    if TEST:
        tl.store(at, tl.sum(e, 0))
        tl.store(at + 1, 0.0)
    else:
        high, low = tl.reduce((e, tl.zeros_like(e)), 0, two_sum)
        tl.store(at, high)
        tl.store(at + 1, low)


@triton.jit
def scale(x, peak, total, y, vocab, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    s = tl.arange(0, PARTS)
    top = tl.max(tl.load(peak + row * PARTS + s), 0)
    at = total + (row * PARTS + s) * 2
    high, low = tl.reduce((tl.load(at), tl.load(at + 1)), 0, two_sum)
    i = part * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + row * vocab + i, tl.exp(tl.load(x + row * vocab + i) - top) / (high + low))


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        (batch, vocab), block = x.shape, 1024
        parts, y = vocab // block, torch.empty_like(x)
        peak, total = x.new_empty(batch, parts), x.new_empty(batch, parts, 2)
        peaks[(batch, parts)](x, peak, vocab, PARTS=parts, BLOCK=block)
        sums[(batch, parts)](x, peak, total, vocab, PARTS=parts, BLOCK=block)
        scale[(batch, parts)](x, peak, total, y, vocab, PARTS=parts, BLOCK=block)
        return y
"""


@pytest.mark.parametrize(("test", "steered"), [("top < 32.0", True), ("vocab < 0", False)])
def test_a_reduction_is_a_sum_that_values_may_choose(tmp_path: Path, test: str, steered: bool) -> None:
    report = report_of(tmp_path, PIECES.replace("TEST", test), "04_kahan_softmax")
    assert ("input-magnitude-sniffing" in {f.leak_class for f in report.findings}) == steered, report.findings
    assert steered or report.verdict == "clean"
