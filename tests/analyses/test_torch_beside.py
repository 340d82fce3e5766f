"""Torch that works beside an authored kernel: elementwise work that belongs in kernels, named results, fp64 sums."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

ROTARY = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn(x, out, cos, sin, pt, ph, pw, T, H, D, S0: tl.constexpr, S1: tl.constexpr, HALF: tl.constexpr):
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = tl.arange(0, HALF)
    left = tl.load(x + (row * H + head) * D + c).to(tl.float32)
    right = tl.load(x + (row * H + head) * D + HALF + c).to(tl.float32)
    at = tl.where(c < S0, tl.load(pt + row), tl.where(c < S0 + S1, tl.load(ph + row), tl.load(pw + row)))
    near, far = tl.load(cos + at * D + c).to(tl.float32), tl.load(sin + at * D + c).to(tl.float32)
    target = out + ((row // T * H + head) * T + row % T) * D + c
    tl.store(target, (left * near - right * far).to(tl.bfloat16))
    tl.store(target + HALF, (right * near + left * far).to(tl.bfloat16))


def launch(x, cos, sin, at, section):
    B, T, H, D = x.shape
    out = torch.empty(B, H, T, D, dtype=x.dtype, device=x.device)
    turn[(B * T, H)](x, out, cos, sin, *at, T, H, D, section[0], section[1], HALF=D // 2)
    return out


def eager(x, cos, sin):
    x = x.transpose(1, 2).float()
    left, right = x.chunk(2, -1)
    return (x * cos[:, None] + torch.cat((-right, left), -1) * sin[:, None]).to(torch.bfloat16)


class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.section = list(mrope_section)
        self.register_buffer("cos_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("sin_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))

    def angles(self, cache, positions):
        pieces = [cache[at].split(self.section * 2, dim=-1) for at in positions]
        return torch.cat([pieces[i % 3][i] for i in range(6)], dim=-1)

    def forward(self, q, k, pos_t, pos_h, pos_w):
        at = (pos_t, pos_h, pos_w)
        tables = self.cos_cache, self.sin_cache
        return launch(q, *tables, at, self.section), KEYS
"""
SOFTMAX = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def exponentials(x, y, top, vocab, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + row * vocab + at, mask=at < vocab, other=float("-inf"))
    tl.store(y + row * vocab + at, tl.exp(value - tl.load(top + row)), mask=at < vocab)


class Model(nn.Module):
    def __init__(self, batch, vocab, extreme=False):
        super().__init__()

    def forward(self, x):
        y = torch.empty_like(x)
        exponentials[(x.shape[0], triton.cdiv(x.shape[1], 1024))](x, y, x.amax(-1), x.shape[1], BLOCK=1024)
        return y / SUM
"""
PLAIN = "y.sum(-1, keepdim=True)"
SORTED = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def move(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        found = torch.sort(x, dim=-1, descending=True)
        values, indices = found.values[:, : self.k].contiguous(), found.indices[:, : self.k].contiguous()
        y = torch.empty_like(values)
        move[(triton.cdiv(values.numel(), 256),)](values, y, values.numel(), BLOCK=256)
        return y, indices
"""


@pytest.mark.parametrize(
    ("keys", "kept"),
    [("launch(k, *tables, at, self.section)", True), ("eager(k, *(self.angles(t, at) for t in tables))", False)],
)
def test_keys_that_torch_turns_are_no_work_of_the_kernel(tmp_path: Path, keys: str, kept: bool) -> None:
    path = tmp_path / "solution.py"
    path.write_text(ROTARY.replace("KEYS", keys))
    file = lint([path], problem="09_fmha_preattn_mrope").files[0]
    assert [promise.state for promise in file.promises] == ["kept" if kept else "broken"]
    assert {finding.leak_class for finding in file.findings} == (set() if kept else {"partial-torch-compute"})


@pytest.mark.parametrize(("total", "state"), [("y.double().sum(-1, keepdim=True).float()", "kept-by-precision"),
                                              ("y.sum(-1, keepdim=True, dtype=torch.float64)", "kept-by-precision"),
                                              ("y.sum(-1, keepdim=True)", "broken"),
                                              (f"{PLAIN} + x[:1, :2].double().sum().float() * 0", "broken"),
                                              (f"{PLAIN} + x.double().sum(-1, True).float() * 0", "broken"),
                                              (f"{PLAIN} + y[:1, :2].double().sum().float() * 0", "unproven"),
                                              ])  # fmt: skip
def test_a_torch_sum_in_fp64_of_authored_exponentials_keeps_the_sum_precise(
    tmp_path: Path, total: str, state: str
) -> None:
    path = tmp_path / "solution.py"
    path.write_text(SOFTMAX.replace("SUM", total))
    file = lint([path], problem="04_kahan_softmax").files[0]
    assert next(promise.state for promise in file.promises if promise.id == "compensated-sum") == state


def test_the_named_results_of_a_sort_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "solution.py"
    path.write_text(SORTED)
    file = lint([path], problem="05_topk_bitonic").files[0]
    assert "builtin-op-sidestep" in {finding.leak_class for finding in file.findings}
    assert file.verdict == "rubric_leak"
