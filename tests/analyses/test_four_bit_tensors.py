"""A problem whose operands are fp4: an element of torch is a byte with two numbers, and elements are counted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

import kbh_lint
from kbh_lint.analyses import flow
from kbh_lint.base import dtypes, paths
from kbh_lint.findings import FileReport

GEMM = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gemm(x, w, scale, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        depth = start + tl.arange(0, BK)
        a = tl.load(x + rows[:, None] * K + depth[None, :], mask=(rows < M)[:, None] & (depth < K)[None, :], other=0)
        b = tl.load(w + cols[None, :] * K + depth[:, None], mask=(depth < K)[:, None], other=0)
        total = tl.dot_scaled(a, None, "e2m1", b, None, "e2m1", total)
    total *= tl.load(scale + cols)[None, :]
    tl.store(y + rows[:, None] * N + cols[None, :], total.to(tl.bfloat16), mask=(rows < M)[:, None])


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float4_e2m1fn_x2))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        (M, K), N = x.shape, self.weight.shape[0]
        y = torch.empty(M, N, dtype=torch.bfloat16, device=x.device)
        given = GIVEN
        gemm[(triton.cdiv(M, 64), triton.cdiv(N, 128))](*given, self.weight_scale, y, M, N, K, BM=64, BN=128, BK=64)
        return y
"""
BYTES = "x.view(torch.uint8), self.weight.view(torch.uint8)"


@pytest.fixture()
def deck(tmp_path: Path) -> Path:
    """A deck of problem 01 with fp4 in the place of fp8, which promises that the work is the submission's own."""
    deck = paths.problems_dir()
    made = tmp_path / "deck"
    shutil.copytree(deck / "01_fp8_gemm", made / "11_fp4_gemm")
    for path in deck.glob("*.yaml"):
        shutil.copy(path, made)
    written = made / "11_fp4_gemm" / "problem.yaml"
    text = written.read_text(encoding="utf-8")
    for old, new in (("e4m3-wgmma", "f32"), ("01_fp8", "11_fp4"), ("fp8", "fp4"), ("e4m3", "e2m1")):
        text = text.replace(old, new)
    data = yaml.safe_load(text)
    data["promises"] = [promise for promise in data["promises"] if promise["kind"] == "authored-compute"]
    written.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return made


def linted(deck: Path, text: str) -> FileReport:
    path = deck.parent / "solution.py"
    path.write_text(text, encoding="utf-8")
    return kbh_lint.lint([path], problem="11_fp4_gemm", problems_dir=deck, raise_errors=True).files[0]


@pytest.mark.parametrize("given", ["x, self.weight", BYTES], ids=["as they are", "as bytes"])
def test_a_kernel_that_reads_all_of_its_operands_keeps_the_promise(deck: Path, given: str) -> None:
    report = linted(deck, GEMM.replace("GIVEN", given))
    assert (report.verdict, {p.id: p.state for p in report.promises}) == ("clean", {"authored-compute": "kept"})


@pytest.mark.parametrize("given", ["x, self.weight", BYTES], ids=["as they are", "as bytes"])
def test_a_kernel_that_reads_half_of_each_row_is_found(deck: Path, given: str) -> None:
    report = linted(deck, GEMM.replace("GIVEN", given).replace("range(0, K, BK)", "range(0, K // 2, BK)"))
    assert report.verdict != "clean" and "KBH401" in {finding.rule for finding in report.findings}


@pytest.mark.parametrize(
    ("source", "target", "widens"),
    [
        ("e2m1", "e4m3", True), ("e4m3", "bf16", True), ("e4m3", "e5m2", False), ("bf16", "e4m3", True),
        ("bf16", "f32", False),
    ],
)  # fmt: skip
def test_a_narrow_type_is_widened_by_more_bits_than_its_own(
    source: str, target: str, widens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it would be with a promise of fp4 products, which makes e2m1 narrow."""
    monkeypatch.setattr(flow, "NARROW", dtypes.NARROW | {"e2m1"})
    assert flow.widens(source, target) is widens
