"""A product of inputs that a call leaves out where they did not change, as an earlier call made it."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

TEXT = """# kbh: problem=01_fp8_gemm
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gemm(x, w, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        depth = start + tl.arange(0, BK)
        a = tl.load(x + rows[:, None] * K + depth[None, :], mask=(rows < M)[:, None] & (depth < K)[None, :], other=0.0)
        b = tl.load(w + cols[None, :] * K + depth[:, None], mask=(depth < K)[:, None], other=0.0)
        total = tl.dot(a, b, total)
    tl.store(y + rows[:, None] * N + cols[None, :], total, mask=(rows < M)[:, None])


@triton.jit
def scaled(y, scale, out, count, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, (tl.load(y + at, mask=at < count) * tl.load(scale + at % N)).to(tl.bfloat16), mask=at < count)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))
        self.kept = {}

    def stamp(self, *tensors):
        return tuple((id(t), t._version) for t in tensors)

    def forward(self, x):
        (M, K), N = x.shape, self.weight.shape[0]
        y = torch.empty((M, N), dtype=torch.float32, device=x.device)
        BODY
        out = torch.empty((M, N), dtype=torch.bfloat16, device=x.device)
        scaled[(triton.cdiv(M * N, 1024),)](y, self.weight_scale, out, M * N, N, BLOCK=1024)
        return out
"""
LAUNCH = "gemm[(triton.cdiv(M, 64), triton.cdiv(N, 64))]({x}, self.weight, y, M, N, K, BM=64, BN=64, BK=64)"
KEPT = """held = self.kept.get("last")
        if held is None or held[0] is not x or held[1] != self.stamp({of}):
            {make}
            self.kept["last"] = held = (x, self.stamp({of}), {what})
        """
LEAKS = {
    "by the tensor and its version": KEPT.format(of="x, self.weight", make=LAUNCH.format(x="x"), what="y")
    + "y = held[2]",
}
HONEST = {
    "nothing": LAUNCH.format(x="x"),
    "a padded copy": KEPT.format(of="x", make="pass", what="x.contiguous().clone()") + LAUNCH.format(x="held[2]"),
    "rows that are counted": KEPT.format(of="x", make="pass", what="x.shape[0]") + LAUNCH.format(x="x"),
}


@pytest.mark.parametrize("body", LEAKS.values(), ids=LEAKS)
def test_a_product_that_is_kept_is_told(tmp_path: Path, body: str) -> None:
    report = report_of(tmp_path, TEXT.replace("BODY", body))
    assert {finding.rule for finding in report.findings} == {"KBH209"}
    assert all("does not compute its product" in finding.message for finding in report.findings)


@pytest.mark.parametrize("body", HONEST.values(), ids=HONEST)
def test_what_else_is_made_of_an_input_may_be_kept(tmp_path: Path, body: str) -> None:
    assert "KBH209" not in {finding.rule for finding in report_of(tmp_path, TEXT.replace("BODY", body)).findings}


HANDED = """@triton.jit
def handed(src, dst, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + at, tl.load(src + at, mask=at < count), mask=at < count)


class Model"""
AGAIN = """held = self.kept.get("last")
        if held is not None and held[0] is x and held[1] == self.stamp(x):
            out = torch.empty_like(held[2])
            handed[(triton.cdiv(M * N, 1024),)](held[2], out, M * N, BLOCK=1024)
            return out
        """


def test_a_kept_output_that_a_kernel_hands_over_is_kept(tmp_path: Path) -> None:
    text = TEXT.replace("class Model", HANDED, 1).replace("BODY", AGAIN + LAUNCH.format(x="x"))
    text = text.replace("return out\n", 'self.kept["last"] = (x, self.stamp(x), out.clone())\n        return out\n')
    text = text.replace(
        '            self.kept["last"] = (x, self.stamp(x), out.clone())\n        return', "            return", 1
    )
    report = report_of(tmp_path, text)
    assert {finding.rule for finding in report.findings} == {"KBH209"}
    assert all("does not compute its output" in finding.message for finding in report.findings)
