"""Where torch has both operands of a product, in whatever operation, and no kernel is handed both, torch multiplies."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

from kbh_lint.findings import FileReport

HEAD = """
import functools
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def scale(p, s, y, N, B: tl.constexpr):
    m, n = tl.program_id(0), tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(p + m * N + n, mask=n < N, other=0.0).to(tl.float32) * tl.load(s + n, mask=n < N, other=0.0)
    tl.store(y + m * N + n, v.to(tl.bfloat16), mask=n < N)


@triton.jit
def gemm(x, w, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(x + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(w + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
        total = tl.dot(a, b.T, total)
    tl.store(y + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.lin = nn.Linear(K, N, bias=False)
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        (M, K), N = x.shape, len(self.weight)
        w, y = self.weight, torch.empty(M, len(self.weight), device=x.device, dtype=torch.bfloat16)
        a, b = x.to(torch.bfloat16), w.to(torch.bfloat16)
"""
LAST = "        scale[(M, triton.cdiv(N, 1024))](p, self.weight_scale, y, N, B=1024)\n        return y\n"
OWN = (
    "p = torch.empty(M, N, device=x.device)\n"
    "        gemm[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x, w, p, M, N, K, 64, 64, 64)"
)
# Where torch goes by columns or rows, a few of them are enough: each is followed, for every shape.
BY_TORCH = {
    "distances": "(a.pow(2).sum(1)[:, None] + b.pow(2).sum(1)[None] - torch.cdist(a.float(), b.float()).pow(2)) / 2",
    "a convolution": "torch.fft.irfft(torch.fft.rfft(a.float())[:, None] * torch.fft.rfft(b.float()).conj())[..., 0]",
    "rank-one updates": "functools.reduce(lambda s, k: s.addr_(a[:, k], b[:, k]), range(64), torch.zeros(M, N).cuda())",
    "numpy": "torch.from_numpy(a.float().cpu().numpy() @ b.float().cpu().numpy().T).to(x.device)",
    "bags": "torch.stack([F.embedding_bag(torch.arange(K).cuda()[None], b.T.contiguous(), per_sample_weights=r[None], "
    "mode='sum')[0] for r in a[:16]]).repeat(M // 16, 1)",
    "a layer by its class": "nn.Module.__call__(self.lin, a) + b.sum()",
}


def _report(tmp_path: Path, lines: str) -> FileReport:
    return report_of(tmp_path, HEAD + f"        {lines}\n" + LAST, "01_fp8_gemm")


@pytest.mark.parametrize("how", BY_TORCH)
def test_what_torch_multiplies_is_no_kernels_product(tmp_path: Path, how: str) -> None:
    report = _report(tmp_path, "p = " + BY_TORCH[how])
    assert report.verdict == "rubric_leak", report.promises
    assert "library-gemm-wrapper" in {f.leak_class for f in report.findings}


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (OWN, "clean"),
        # what calls a function may read what that sees
        ("p = torch.autograd.functional.jvp(lambda row: b @ row, a)[1]", "unproven"),
        ("p = torch.linalg.lstsq(torch.eye(K).cuda(), b.T.float()).solution.T.mm(a.T.float()).T", "unproven"),
    ],
)
def test_a_kernel_that_is_handed_both_or_what_is_not_read_is_no_finding(
    tmp_path: Path, lines: str, verdict: str
) -> None:
    report = _report(tmp_path, lines)
    assert report.verdict == verdict, (report.findings, report.promises)


def test_a_torch_operation_on_both_beside_a_kernel_that_is_handed_both_is_no_finding(tmp_path: Path) -> None:
    report = _report(tmp_path, OWN + "\n        p = p + (a.float().amax() * b.float().amax()) * 0.0")
    assert "library-gemm-wrapper" not in {f.leak_class for f in report.findings}
