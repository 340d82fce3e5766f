"""Totals of products that lie in device memory between rounds of a loop or launches, or while blocks add to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

HEAD = """# kbh: problem=01_fp8_gemm
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled(y, t, s, n, N, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.load(t + at, mask=at < n).to(tl.float32) * tl.load(s + at % N)
    tl.store(y + at, total.to(tl.bfloat16), mask=at < n)


@triton.jit
def gemm(x, w, t, low, M, N, K, SPAN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (rows < M)[:, None]
    to = t + rows[:, None] * N + cols[None, :]
    BEGIN
    for k in range(FROM):
        depth = k + tl.arange(0, BK)
        a = tl.load(x + rows[:, None] * K + depth[None, :], mask=(rows < M)[:, None] & (depth < K)[None, :], other=0.0)
        b = tl.load(w + cols[None, :] * K + depth[:, None], mask=(depth < K)[:, None], other=0.0)
        ROUND
    END


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        (M, K), N = x.shape, self.weight.shape[0]
        t = torch.zeros((M, N), dtype=torch.KIND, device=x.device)
        for low in range(0, LAUNCHES):
            gemm[(triton.cdiv(M, 64), N // 128, PARTS)](
                x, self.weight, t, low, M, N, K, SPAN=SPANNED, BM=64, BN=128, BK=64
            )
        y = torch.empty((M, N), dtype=torch.bfloat16, device=x.device)
        scaled[(triton.cdiv(M * N, 1024),)](y, t, self.weight_scale, M * N, N, B=1024)
        return y
"""
ALL, SPAN, SPLIT = "0, K, BK", "low, tl.minimum(low + SPAN, K), BK", "tl.program_id(2) * BK, K, BK * tl.num_programs(2)"
ZERO, ADD = "acc = tl.zeros((BM, BN), dtype=tl.float32)", "acc = tl.dot(a, b, acc)"
CLEAR = "tl.store(to, tl.zeros((BM, BN), dtype=tl.float32), mask=inside)"
OLD, DOT = "tl.load(to, mask=inside)", "tl.dot(a, b)"


def put(value: str) -> str:
    return f"tl.store(to, {value}, mask=inside)"


def lines(*texts: str, deep: int = 2) -> str:
    return ("\n" + "    " * deep).join(texts)


ROUNDS = {
    "a sum": (CLEAR, put(f"{OLD} + {DOT}"), True),
    "the accumulator of a product": (
        CLEAR, lines(f"acc = {OLD}.to(tl.float32)", ADD, put("acc.to(tl.KIND)")), True
    ),
    "an addition in place": (CLEAR, lines(f"acc = {DOT}", f"acc += {OLD}", put("acc")), True),
    "the place written again": (
        CLEAR,
        lines("old = tl.load(t + rows[:, None] * N + cols[None, :], mask=inside)", put(f"{DOT} + old")),
        True,
    ),
    "zeros in the first round": ("pass", put(f"tl.where(k > 0, {OLD}, 0.0) + {DOT}"), True),
    "a branch in the first round": (
        "pass", lines("if k == 0:", "    " + put(DOT), "else:", "    " + put(f"{OLD} + {DOT}")), True
    ),
    "scaled in between": (CLEAR, put(f"{OLD} * 0.5 + {DOT}"), True),
    "a descriptor": (
        lines(
            "view = tl.make_tensor_descriptor(t, [M, N], [N, 1], [BM, BN])",
            "at = [tl.program_id(0) * BM, tl.program_id(1) * BN]",
            "view.store(at, tl.zeros((BM, BN), dtype=tl.float32))",
            deep=1,
        ),
        f"view.store(at, (view.load(at) + {DOT}).to(tl.KIND))",
        True,
    ),
    "begun in each round": ("pass", lines(put(f"{DOT} * 0.5"), put(f"{OLD} + {DOT}")), False),
    "a place of each round": (CLEAR, f"tl.store(to + k, tl.load(to + k) + {DOT})", False),
    "a product with it": (CLEAR, put(f"{OLD} * {DOT}"), False),
    "a copy of it": (ZERO, lines(ADD, put("acc")), False),
}  # fmt: skip


def rules_of(tmp_path: Path, kind: str, begin: str, step: str, end: str, taken: str = ALL, **how: str) -> set[str]:
    text = HEAD.replace("BEGIN", begin).replace("ROUND", step).replace("END", end).replace("FROM", taken)
    for word, given in {"LAUNCHES": "1", "PARTS": "1", "SPANNED": "512", **how}.items():
        text = text.replace(word, given)
    report = report_of(tmp_path, text.replace("KIND", kind))
    return {f"{finding.rule} {finding.message.split()[0]}" for finding in report.findings if finding.rule != "KBH712"}


@pytest.mark.parametrize("way", ROUNDS)
def test_rounds_of_a_loop(tmp_path: Path, way: str) -> None:
    begin, step, found = ROUNDS[way]
    assert rules_of(tmp_path, "bfloat16", begin, step, "pass") == ({"KBH403 accumulators"} if found else set())
    assert rules_of(tmp_path, "float32", begin, step, "pass") == set()


LAUNCHES = {
    "a sum": (ZERO, put(f"{OLD} + acc"), True),
    "what the product begins with": (f"acc = {OLD}.to(tl.float32)", put("acc"), True),
    "all launches but the first": (
        ZERO, lines("if low > 0:", f"    acc += {OLD}", put("acc"), deep=1), True
    ),
    "the last alone": (ZERO, put("acc"), False),
    "a product with it": (ZERO, put(f"{OLD} * acc"), False),
}  # fmt: skip


@pytest.mark.parametrize("way", LAUNCHES)
def test_launches_over_parts_of_a_sum(tmp_path: Path, way: str) -> None:
    begin, end, found = LAUNCHES[way]
    for kind in ("bfloat16", "float16", "float32"):
        rules = rules_of(tmp_path, kind, begin, ADD, end, SPAN, LAUNCHES="K, 512")
        assert rules == ({"KBH403 accumulators"} if found and kind != "float32" else set())


def test_what_was_there_before_is_no_part_of_the_sum(tmp_path: Path) -> None:
    assert rules_of(tmp_path, "bfloat16", ZERO, ADD, put(f"{OLD} + acc"), SPAN, SPANNED="1 << 16") == set()


@pytest.mark.parametrize("kind, found", [("bfloat16", True), ("float16", True), ("float32", False)])
def test_blocks_that_add_to_one_total(tmp_path: Path, kind: str, found: bool) -> None:
    end = f"tl.atomic_add(to, acc.to(tl.{kind}), mask=inside)"
    rules = rules_of(tmp_path, kind, ZERO, ADD, end, SPLIT, PARTS="4")
    assert rules == ({"KBH403 accumulators"} if found else set())
