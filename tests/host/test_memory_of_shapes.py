"""Memory that outlives a model: what another shape's model left there is none of this one's weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

PROGRAM = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

WORK = {}


@triton.jit
def part(x, words, scales, zeros, work, M, N, K, PER: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    split = tl.program_id(2)
    at = split * M * N + rows[:, None] * N + cols[None, :]
    total = START
    for i in range(0, PER):
        word = split * PER + i
        packed = tl.load(words + word * N + cols)
        s = tl.load(scales + word // 16 * N + cols)
        z = tl.load(zeros + word // 16 * N + cols)
        for j in tl.static_range(8):
            w = ((packed >> (4 * j)) & 15).to(tl.float32)
            a = tl.load(x + rows * K + word * 8 + j, mask=rows < M, other=0.0).to(tl.float32)
            total += a[:, None] * ((w - z) * s)[None, :]
    tl.store(work + at, total, mask=(rows < M)[:, None])


@triton.jit
def add(work, y, M, N, SPLITS: tl.constexpr, BN: tl.constexpr):
    at = tl.program_id(0) * N + tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BN,), tl.float32)
    for split in range(0, SPLITS):
        total += tl.load(work + split * M * N + at)
    tl.store(y + at, total.to(tl.bfloat16))


def repack(w_q):
    half, N = w_q.shape
    q = torch.empty(2 * half, N, dtype=torch.uint8, device=w_q.device)
    q[0::2] = w_q & 15
    q[1::2] = w_q >> 4
    words = q[0::8].to(torch.int32)
    for i in range(1, 8):
        words = words | (q[i::8].to(torch.int32) << (4 * i))
    return words


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.words = self.seen = None

    def forward(self, x):
        (M, K), N = x.shape, self.w_q.shape[1]
        if self.seen != self.w_q._version:
            self.words, self.seen = PREPARE, self.w_q._version
        if "all" not in WORK:
            WORK["all"] = torch.empty(MOST, device=x.device)
        work, y = WORK["all"], torch.empty(M, N, dtype=torch.bfloat16, device=x.device)
        part[(triton.cdiv(M, 16), N // 64, 8)](
            x, self.words, self.scales, self.zeros, work, M, N, K, PER=K // 64, BM=16, BN=64
        )
        add[(M, N // 64)](work, y, M, N, SPLITS=8, BN=64)
        return y
"""
ZEROS, OLD = "tl.zeros((BM, BN), tl.float32)", "tl.load(work + at, mask=(rows < M)[:, None], other=0.0) * 0.0"
PACKED = "repack(self.w_q)"
WIDE = "torch.stack((self.w_q & 15, self.w_q >> 4), 1).view(-1, N).to(torch.int32)"
VARIANTS = {
    "one workspace for all models": (ZEROS, PACKED, "clean", "kept"),
    "one that is read before it is written": (OLD, PACKED, "clean", "kept"),
    "weights of four bytes each": (OLD, WIDE, "rubric_leak", "broken"),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_weights_of_another_shape_are_not_those_that_are_multiplied(tmp_path: Path, variant: str) -> None:
    start, prepare, verdict, state = VARIANTS[variant]
    path = tmp_path / "solution.py"
    text = PROGRAM.replace("START", start).replace("PREPARE", prepare)
    path.write_text(text.replace("MOST", "8 * 256 * 14336"), encoding="utf-8")
    (report,) = lint([path], problem="07_w4a16_gemm").files
    states = {promise.id: promise.state for promise in report.promises}
    assert (report.verdict, states["int4-packed"]) == (verdict, state)
