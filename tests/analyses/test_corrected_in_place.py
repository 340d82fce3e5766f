"""A launch that corrects in bf16 what a launch before left: an operand of its products, no part of a sum."""

from __future__ import annotations

from pathlib import Path

from linted import report_of

DELTA = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pairs(k, v, g, beta, u, T, H, C: tl.constexpr, D: tl.constexpr):
    rows, cols = tl.arange(0, C), tl.arange(0, D)
    first = (tl.program_id(1) // H * T + tl.program_id(0) * C + rows) * H + tl.program_id(1) % H
    at = first[:, None] * D + cols[None, :]
    key = (tl.load(k + at) * tl.exp(tl.load(g + at))).to(tl.bfloat16)
    low = tl.dot(key, tl.trans(key)) * tl.load(beta + first)[:, None]
    tl.store(u + at, tl.dot(low.to(tl.bfloat16), tl.load(v + at)).to(tl.bfloat16))


@triton.jit
def walk(q, k, v, beta, g, u, o, T, H, C: tl.constexpr, D: tl.constexpr):
    rows, cols = tl.arange(0, C), tl.arange(0, D)
    state = tl.zeros((D, D), dtype=tl.float32)
    for c in range(0, T // C):
        first = (tl.program_id(0) // H * T + c * C + rows) * H + tl.program_id(0) % H
        at = first[:, None] * D + cols[None, :]
        key = (tl.load(k + at) * tl.exp(tl.load(g + at))).to(tl.bfloat16)
        held = state.to(tl.bfloat16)
        fresh = (tl.load(u + at).to(tl.float32) - tl.dot(key, held)).to(tl.bfloat16)
        tl.store(u + at, fresh)
        decay = tl.exp(tl.sum(tl.load(g + at), axis=0))
        state = tl.dot(tl.trans(key), fresh, state * decay[:, None])
        tl.store(o + at, tl.dot(tl.load(q + at), held).to(tl.bfloat16))


class Model(nn.Module):
    def __init__(self, B, T, H, K, V, chunk_size):
        super().__init__()

    def forward(self, q, k, v, g, beta):
        B, T, H, D = v.shape
        u, o = torch.empty_like(v), torch.empty_like(v)
        pairs[(T // 64, B * H)](k, v, g, beta, u, T, H, C=64, D=D)
        walk[(B * H,)](q, k, v, beta, g, u, o, T, H, C=64, D=D)
        return o
"""


def test_a_corrected_operand_is_no_total_of_two_launches(tmp_path: Path) -> None:
    report = report_of(tmp_path, DELTA, "02_kda_cutlass")
    assert report.verdict == "clean", report.findings
