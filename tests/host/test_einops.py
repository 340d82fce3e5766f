"""einops moves axes, and its einsum is a library's product; neither is taken for a foreign function."""

from __future__ import annotations

from pathlib import Path

import pytest

import kbh_lint
from kbh_lint.base import paths
from kbh_lint.findings import FileReport
from kbh_lint.rules import load_rules

EXAMPLES = {example.name: example for rule in load_rules(paths.rules_dir()) for example in rule.good}


def lint(code: str, problem: str, folder: Path) -> FileReport:
    """The report on one text."""
    path = folder / "solution.py"
    path.write_text(code, encoding="utf-8")
    return kbh_lint.lint([path], problem=problem, raise_errors=True).files[0]


PRODUCT = """
import torch
import torch.nn as nn
from einops import einsum, rearrange


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        y = einsum(x.bfloat16(), rearrange(self.weight, "n k -> k n").bfloat16(), "row deep, deep col -> row col")
        return (y * self.weight_scale).bfloat16()
"""


def test_einsum_by_names_is_a_library_product(tmp_path: Path) -> None:
    classes = {finding.leak_class for finding in lint(PRODUCT, "01_fp8_gemm", tmp_path).findings}
    assert {"fp8-upcast-bf16-gemm", "zero-kernel-torch-wrapper"} <= classes
    assert "foreign-library-compute" not in classes


@pytest.mark.parametrize("there", ["b t h k -> b h t k", "b (n c) h k -> b n c h k", "... (j k) -> ... j k"])
def test_axes_moved_there_and_back_leave_a_kernel_its_promises(there: str, tmp_path: Path) -> None:
    left, _, right = there.partition(" -> ")
    example = EXAMPLES["all-in-the-kernel"]
    code = example.code.replace(
        "        o = torch.empty_like(v)\n",
        "        from einops import rearrange\n\n"
        f"        split = rearrange(q, {there!r}, c=64, j=2)\n"
        f"        q = rearrange(split, {right + ' -> ' + left!r}, c=64, j=2).contiguous()\n"
        "        o = torch.empty_like(v)\n",
    )
    assert code != example.code
    report = lint(code, "02_kda_cutlass", tmp_path)
    assert report.verdict == "clean", (report.findings, report.unread)
    assert all(promise.state == "kept" for promise in report.promises)
