"""A packed weight that one kernel takes apart and another multiplies is expanded, also slab by slab."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

HEAD = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def opened(q, s, z, slab, N, first, W, BN: tl.constexpr):
    group, j = tl.program_id(0), tl.program_id(1) * BN + tl.arange(0, BN)
    half = tl.arange(0, 64)
    byte = tl.load(q + (group * 64 + half)[:, None] * N + (first + j)[None, :])
    scale = tl.load(s + group * N + first + j)[None, :].to(tl.float32)
    zero = tl.load(z + group * N + first + j)[None, :].to(tl.float32)
    at = slab + (group * 128 + 2 * half)[:, None] * W + j[None, :]
    tl.store(at, (((byte % 16).to(tl.float32) - zero) * scale).to(tl.bfloat16))
    tl.store(at + W, (((byte // 16).to(tl.float32) - zero) * scale).to(tl.bfloat16))


@triton.jit
def product(x, slab, y, M, N, first, W, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows, j = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, 64):
        depth = k + tl.arange(0, 64)
        a = tl.load(x + rows[:, None] * K + depth[None, :], mask=rows[:, None] < M, other=0.0)
        acc = tl.dot(a, tl.load(slab + depth[:, None] * W + j[None, :]), acc)
    tl.store(y + rows[:, None] * N + (first + j)[None, :], acc.to(tl.bfloat16), mask=rows[:, None] < M)


@triton.jit
def inside(x, q, s, z, sums, y, M, N, first, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = first + tl.program_id(1) * BN + tl.arange(0, BN)
    half = tl.arange(0, 64)
    acc = tl.zeros((BM, BN), tl.float32)
    for group in range(K // 128):
        byte = tl.load(q + (group * 64 + half)[:, None] * N + cols[None, :])
        even = x + rows[:, None] * K + (group * 128 + 2 * half)[None, :]
        a = tl.load(even, mask=rows[:, None] < M, other=0.0)
        b = tl.load(even + 1, mask=rows[:, None] < M, other=0.0)
        part = tl.dot(a, (byte & 15).to(tl.bfloat16))
        part = tl.dot(b, (byte >> 4).to(tl.bfloat16), part)
        total = tl.load(sums + group * M + rows, mask=rows < M, other=0.0)[:, None]
        zero = tl.load(z + group * N + cols)[None, :].to(tl.float32)
        acc += (part - total * zero) * tl.load(s + group * N + cols)[None, :].to(tl.float32)
    tl.store(y + rows[:, None] * N + cols[None, :], acc.to(tl.bfloat16), mask=rows[:, None] < M)


@triton.jit
def added(x, sums, M, K: tl.constexpr):
    row, group = tl.program_id(0), tl.program_id(1)
    v = tl.load(x + row * K + group * 128 + tl.arange(0, 128)).to(tl.float32)
    tl.store(sums + group * M + row, tl.sum(v, 0))


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.M, self.N, self.K = M, N, K
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))

    def forward(self, x):
        M, N, K = self.M, self.N, self.K
        y = x.new_empty(M, N)
        blocks = triton.cdiv(M, 16)
"""
PIECES = """        W = WIDTH
        slab = x.new_empty(K, W)
        for first in range(0, N, W):
            opened[(K // 128, W // 64)](self.w_q, self.scales, self.zeros, slab, N, first, W, BN=64)
            product[(blocks, W // 64)](x, slab, y, M, N, first, W, K=K, BM=16, BN=64)
        return y
"""
WHOLE = """        sums = torch.empty(K // 128, M, device=x.device)
        added[(M, K // 128)](x, sums, M, K=K)
        for first in range(0, N, N // PARTS):
            inside[(blocks, N // PARTS // 64)](
                x, self.w_q, self.scales, self.zeros, sums, y, M, N, first, K=K, BM=16, BN=64
            )
        return y
"""


def report(tmp_path: Path, body: str) -> tuple[set[str], dict[str, str]]:
    found = report_of(tmp_path, HEAD + body, "07_w4a16_gemm")
    return {f.leak_class for f in found.findings if f.severity != "info"}, {p.id: p.state for p in found.promises}


@pytest.mark.parametrize("width", ["N", "N // 4", "512"])
def test_slabs_that_together_are_the_weight_are_an_expanded_weight(tmp_path: Path, width: str) -> None:
    found, states = report(tmp_path, PIECES.replace("WIDTH", width))
    assert found == {"preunpacked-int4"} and states["int4-packed"] == "broken", (found, states)


MULTIPLIED = {
    "added to columns of the result": "part.copy_(torch.addmm(part, x, slab, beta=0, alpha=1))",
    "written to columns of the result": "torch.addmm(part, x, slab, beta=0, out=part)",
    "as batches of one": "part.copy_(torch.baddbmm(part[None], x[None], slab[None], beta=0)[0])",
    "by a product alone": "torch.mm(x, slab, out=part)",
}


@pytest.mark.parametrize("width", ["N", "N // 4", "512"])
@pytest.mark.parametrize("how", MULTIPLIED)
def test_slabs_that_torch_multiplies_into_columns_are_an_expanded_weight(tmp_path: Path, how: str, width: str) -> None:
    product = "product[(blocks, W // 64)](x, slab, y, M, N, first, W, K=K, BM=16, BN=64)"
    assert product in PIECES
    step = PIECES.replace(product, f"part = y[:, first : first + W]\n            {MULTIPLIED[how]}")
    found, states = report(tmp_path, step.replace("WIDTH", width))
    assert "unfused-dequant-library-gemm" in found and set(states.values()) == {"broken"}, (found, states)


@pytest.mark.parametrize("parts", [1, 2, 4, 8])
def test_a_weight_that_is_opened_where_it_is_multiplied_is_kept_part_by_part(tmp_path: Path, parts: int) -> None:
    assert report(tmp_path, WHOLE.replace("PARTS", str(parts))) == (
        set(),
        {"int4-packed": "kept", "authored-compute": "kept"},
    )


SOME = """        W = N // PART // 64 * 64
        if self.slab is None:
            self.slab = x.new_empty(K, W)
            opened[(K // 128, W // 64)](self.w_q, self.scales, self.zeros, self.slab, N, 0, W, BN=64)
        sums = torch.empty(K // 128, M, device=x.device)
        added[(M, K // 128)](x, sums, M, K=K)
        product[(blocks, W // 64)](x, self.slab, y, M, N, 0, W, K=K, BM=16, BN=64)
        inside[(blocks, (N - W) // 64)](
            x, self.w_q, self.scales, self.zeros, sums, y, M, N, W, K=K, BM=16, BN=64
        )
        return y
"""


@pytest.mark.parametrize("part", [2, 3, 8])
def test_some_columns_that_are_kept_at_full_width_are_an_expanded_weight(tmp_path: Path, part: int) -> None:
    body = SOME.replace("PART", str(part))
    kept = HEAD.replace("        self.M, self.N", "        self.slab = None\n        self.M, self.N")
    found = report_of(tmp_path, kept + body, "07_w4a16_gemm")
    assert "preunpacked-int4" in {f.leak_class for f in found.findings}, found.findings
    assert {p.id: p.state for p in found.promises}["int4-packed"] == "broken"


def test_sums_of_the_numbers_are_none_of_them(tmp_path: Path) -> None:
    """What is added up over each group of a column, and multiplied, is a hundredth of the weight."""
    weighed = """
@triton.jit
def weighed(q, sums, N, BN: tl.constexpr):
    group, j = tl.program_id(0), tl.program_id(1) * BN + tl.arange(0, BN)
    byte = tl.load(q + (group * 64 + tl.arange(0, 64))[:, None] * N + j[None, :])
    tl.store(sums + group * N + j, tl.sum((byte % 16 + byte // 16).to(tl.float32), 0))


@triton.jit
def moved(x, sums, y, N, K: tl.constexpr, BN: tl.constexpr):
    row, j = tl.program_id(0), tl.program_id(1) * BN + tl.arange(0, BN)
    more = tl.zeros((BN,), tl.float32)
    for group in range(K // 128):
        more += tl.load(x + row * K + group * 128).to(tl.float32) * tl.load(sums + group * N + j)
    tl.store(y + row * N + j, (tl.load(y + row * N + j).to(tl.float32) + more).to(tl.bfloat16))
"""
    call = "        heavy = torch.empty(K // 128, N, device=x.device)\n"
    call += "        weighed[(K // 128, N // 64)](self.w_q, heavy, N, BN=64)\n"
    call += "        moved[(M, N // 64)](x, heavy, y, N, K=K, BN=64)\n        return y\n"
    body = WHOLE.replace("PARTS", "1").replace("        return y\n", call)
    report = report_of(tmp_path, HEAD.replace("\n\nclass Model", f"{weighed}\n\nclass Model") + body, "07_w4a16_gemm")
    assert not any(f.rule == "KBH105" for f in report.findings), report.findings
