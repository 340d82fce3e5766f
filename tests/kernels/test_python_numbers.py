"""`float(x)` in a kernel of a language written in Python converts what was loaded, as its own types do."""

from __future__ import annotations

from pathlib import Path

import pytest

import kbh_lint

DOT = """\
import cutlass
import cutlass.cute as cute
import torch
import torch.nn as nn
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def gemm(x: cute.Tensor, w: cute.Tensor, scale: cute.Tensor, y: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    col = bx * 128 + tid
    if col < y.shape[1]:
        total = cutlass.Float32(0.0)
        for k in range(x.shape[1]):
            total += WIDE(x[by, k]) * WIDE(w[col, k])
        y[by, col] = cutlass.BFloat16(total * scale[col])


@cute.jit
def run(x: cute.Tensor, w: cute.Tensor, scale: cute.Tensor, y: cute.Tensor):
    gemm(x, w, scale, y).launch(grid=(cute.ceil_div(y.shape[1], 128), y.shape[0], 1), block=(128, 1, 1))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))
        self.compiled = None

    def forward(self, x):
        y = torch.empty((x.shape[0], self.weight.shape[0]), dtype=torch.bfloat16, device=x.device)
        args = [from_dlpack(t).mark_layout_dynamic() for t in (x, self.weight, self.weight_scale, y)]
        if self.compiled is None:
            self.compiled = cute.compile(run, *args)
        self.compiled(*args)
        return y
"""


@pytest.mark.parametrize("wide", ["cutlass.Float32", "float"])
def test_fp8_numbers_that_are_widened_one_by_one_are_told(wide: str, tmp_path: Path) -> None:
    file = tmp_path / "solution.py"
    file.write_text(DOT.replace("WIDE", wide), encoding="utf-8")
    [report] = kbh_lint.lint([file], problem="01_fp8_gemm", raise_errors=True).files
    states = {promise.id: promise.state for promise in report.promises}
    assert (report.verdict, states) == ("rubric_leak", {"fp8-products": "broken", "authored-compute": "kept"})
    assert "KBH101" in {finding.rule for finding in report.findings}
