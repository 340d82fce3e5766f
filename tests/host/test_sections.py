"""A result made in sections, a launch each: one does not replace what the others wrote, where it cannot reach it."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import classes, lint, states

PROBLEM = "09_fmha_preattn_mrope"
KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn(source, target, position, cos, sin, T, heads, D: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr,
         WIDE: tl.constexpr, BT: tl.constexpr):
    b, h = tl.program_id(1) // heads, tl.program_id(1) % heads
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    CHANNELS
    inside = (t < T)[:, None] & real[None, :]
    at = tl.load(position + b * T + t, mask=t < T, other=0)[:, None] * D + c[None, :]
    HALF: tl.constexpr = D // 2
    cos_left = tl.load(cos + at, mask=inside, other=0.0).to(tl.float32)
    sin_left = tl.load(sin + at, mask=inside, other=0.0).to(tl.float32)
    cos_right = tl.load(cos + at + HALF, mask=inside, other=0.0).to(tl.float32)
    sin_right = tl.load(sin + at + HALF, mask=inside, other=0.0).to(tl.float32)
    read = source + ((b * T + t) * heads + h).to(tl.int64)[:, None] * D + c[None, :]
    left = tl.load(read, mask=inside, other=0.0).to(tl.float32)
    right = tl.load(read + HALF, mask=inside, other=0.0).to(tl.float32)
    write = target + ((b * heads + h) * T + t).to(tl.int64)[:, None] * D + c[None, :]
    tl.store(write, (left * cos_left - right * sin_left).to(tl.bfloat16), mask=inside)
    tl.store(write + HALF, (right * cos_right + left * sin_right).to(tl.bfloat16), mask=inside)


class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.sections = list(mrope_section)
        self.register_buffer("cos_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("sin_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))

    def turned(self, x, positions):
        B, T, H, D = x.shape
        out = torch.empty(B, H, T, D, dtype=x.dtype, device=x.device)
        low = 0
        for width, position in zip(self.sections, positions):
            turn[(triton.cdiv(T, 32), B * H)](
                x, out, position, self.cos_cache, self.sin_cache, T, H, D=D, BOUNDS,
                WIDE=triton.next_power_of_2(width), BT=32,
            )
            low += width
        return out

    def forward(self, q, k, pos_t, pos_h, pos_w):
        positions = (pos_t, pos_h, pos_w)
        return self.turned(q, positions), self.turned(k, positions)
"""
OWN = "LOW=low, HIGH=low + width"
WAYS = {
    "tiles as wide as a section": "c = LOW + tl.arange(0, WIDE)\n    real = c < HIGH",
    "masked tiles of all channels": "c = tl.arange(0, D // 2)\n    real = (c >= LOW) & (c < HIGH)",
}


def program(how: str, bounds: str = OWN) -> str:
    return KERNEL.replace("CHANNELS", WAYS[how]).replace("BOUNDS", bounds)


@pytest.mark.parametrize("how", WAYS)
def test_every_section_is_a_part_of_the_result(tmp_path: Path, how: str) -> None:
    report = lint(tmp_path, program(how), PROBLEM)
    assert set(states(report).values()) == {"kept"} and not classes(report), report.findings


@pytest.mark.parametrize("how", WAYS)
def test_a_section_that_nobody_turns_by_its_own_positions_is_told(tmp_path: Path, how: str) -> None:
    report = lint(tmp_path, program(how).replace("(pos_t, pos_h, pos_w)", "(pos_t, pos_t, pos_w)"), PROBLEM)
    assert any("does not depend on pos_h" in finding.message for finding in report.findings), report.findings


def test_a_launch_that_writes_all_replaces_what_was_there(tmp_path: Path) -> None:
    how = "masked tiles of all channels"
    report = lint(tmp_path, program(how, "LOW=0, HIGH=D // 2"), PROBLEM)
    assert any("does not depend on pos_t" in finding.message for finding in report.findings), report.findings


def test_a_try_of_a_tuner_with_less_of_a_workspace_is_no_section(tmp_path: Path) -> None:
    tuned = Path(__file__).parents[1] / "variants" / "07_w4a16_gemm" / "tune_on_first_call.py"
    report = lint(tmp_path, tuned.read_text(encoding="utf-8"), "07_w4a16_gemm")
    assert set(states(report).values()) == {"kept"} and not classes(report), report.findings
