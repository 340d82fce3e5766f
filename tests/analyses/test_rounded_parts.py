"""Parts of a product's depth that are stored in 16 bits between two launches, and then added in fp32."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

PROGRAM = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def part(x, w, parts, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, S: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    s = tl.program_id(2)
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(s * BK, K, BK * S):
        ks = k + tl.arange(0, BK)
        a = tl.load(x + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        b = tl.load(w + cols[None, :] * K + ks[:, None], mask=(cols[None, :] < N) & (ks[:, None] < K), other=0.0)
        total = tl.dot(a, b, total)
    at = parts + s * M * N + rows[:, None] * N + cols[None, :]
    tl.store(at, total.to(parts.dtype.element_ty), mask=inside)


@triton.jit
def join(parts, scale, y, M, N, S: tl.constexpr, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    SUM
    total = total * tl.load(scale + at % N)
    tl.store(y + at, total.to(tl.bfloat16), mask=at < M * N)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N, dtype=torch.float32))

    def forward(self, x):
        (M, K), N = x.shape, self.weight.shape[0]
        parts = torch.empty(4, M, N, dtype=TYPE, device=x.device)
        y = torch.empty(M, N, dtype=torch.bfloat16, device=x.device)
        part[(triton.cdiv(M, 128), triton.cdiv(N, 128), 4)](x, self.weight, parts, M, N, K, 128, 128, 64, 4)
        join[(triton.cdiv(M * N, 1024),)](parts, self.weight_scale, y, M, N, 4, 1024)
        return y
"""
LOOP = """total = tl.zeros((B,), dtype=tl.float32)
    for s in range(S):
        total += tl.load(parts + s * M * N + at, mask=at < M * N, other=0.0).to(tl.float32)"""
AT_ONCE = """each = tl.arange(0, S)[:, None] * M * N + at[None, :]
    total = tl.sum(tl.load(parts + each, mask=(at < M * N)[None, :], other=0.0).to(tl.float32), axis=0)"""


@pytest.mark.parametrize("way", [LOOP, AT_ONCE], ids=["loop", "at-once"])
@pytest.mark.parametrize(
    ("dtype", "verdict"), [("bfloat16", "interesting"), ("float16", "interesting"), ("float32", "clean")]
)
def test_parts_of_a_depth_are_told_where_they_are_rounded(tmp_path: Path, way: str, dtype: str, verdict: str) -> None:
    path = tmp_path / "solution.py"
    path.write_text(PROGRAM.replace("SUM", way).replace("TYPE", f"torch.{dtype}"), encoding="utf-8")
    (report,) = lint([path], problem="01_fp8_gemm").files
    found = [finding.rule for finding in report.findings]
    assert (report.verdict, found) == (verdict, ["KBH404"] if verdict == "interesting" else [])
