"""Where a loop ends may be chosen: by a constant of the compilation, by a remainder. What it leaves out is not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gemm(x, w, s, y, M, N, K, EVEN: tl.constexpr, MODE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
         BK: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    END
    for k0 in range(0, end, BK):
        k = k0 + tl.arange(0, BK)
        a = tl.load(x + r[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
        b = tl.load(w + c[None, :] * K + k[:, None], mask=k[:, None] < K, other=0.0)
        acc = tl.dot(a, b, acc)
    REST
    tl.store(y + r[:, None] * N + c[None, :], (acc * tl.load(s + c)[None, :]).to(tl.bfloat16), mask=(r < M)[:, None])


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N, dtype=torch.float32))

    def forward(self, x):
        (M, K), N = x.shape, self.weight.shape[0]
        y = torch.empty(M, N, dtype=torch.bfloat16, device=x.device)
        gemm[(triton.cdiv(M, 64), N // 64)](
            x, self.weight, self.weight_scale, y, M, N, K, EVEN=K % 64 == 0, MODE=2, BM=64, BN=64, BK=64
        )
        return y
"""
LEAVE = {  # ends of the loop that leave out a part of the depth, where it is odd or everywhere
    "a remainder": "end = K - K % BK",
    "a choice": "end = K // 2 if MODE == 2 else K",
    "a branch": "end = K\n    if MODE == 2:\n        end = K // 2",
    "a flag": "if not EVEN:\n        end = K // BK * BK\n    else:\n        end = K",
}
REST = """if not EVEN:
        k = end + tl.arange(0, BK)
        a = tl.load(x + r[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
        b = tl.load(w + c[None, :] * K + k[:, None], mask=k[:, None] < K, other=0.0)
        acc = tl.dot(a, b, acc)"""
HONEST = {
    "a remainder that is added": ("end = K - K % BK", REST),
    "a flag, and what is left is added": (LEAVE["a flag"], REST),
    "the other choice": ("end = K // 2 if MODE == 1 else K", "pass"),
    "the other branch": ("end = K\n    if MODE == 1:\n        end = K // 2", "pass"),
}


def linted(tmp_path: Path, end: str, rest: str) -> tuple[str, list[str]]:
    path = tmp_path / "solution.py"
    path.write_text(KERNEL.replace("END", end).replace("REST", rest), encoding="utf-8")
    (report,) = lint([path], problem="01_fp8_gemm", raise_errors=True).files
    return report.verdict, [finding.message for finding in report.findings]


@pytest.mark.parametrize("how", LEAVE)
def test_what_no_iteration_reaches_is_not_read(tmp_path: Path, how: str) -> None:
    verdict, found = linted(tmp_path, LEAVE[how], "pass")
    assert verdict == "rubric_leak" and any("depend on all of" in one for one in found), found


@pytest.mark.parametrize("how", HONEST)
def test_all_of_the_depth_is_read(tmp_path: Path, how: str) -> None:
    assert linted(tmp_path, *HONEST[how]) == ("clean", [])
