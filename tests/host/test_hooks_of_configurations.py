"""A configuration's `pre_hook` is called before its launch: what it does to tensors and descriptors is done."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

PROBLEM = "01_fp8_gemm"
TEXT = """
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


def prepare(args):
    {hook}


@triton.autotune([triton.Config({{"BM": 64, "BN": bn, "BK": 128}}, pre_hook=prepare) for bn in (64, 128)], key=["K"])
@triton.jit
def product(x, w, scale, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        total = tl.dot(x.load([m, k * BK]), w.load([n, k * BK]).T, total)
    columns = n + tl.arange(0, BN)
    total = total * tl.load(scale + columns, mask=columns < N, other=0.0)[None, :]
    y.store([m, n], total.to(tl.bfloat16))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.N = N
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        more = -x.shape[1] % 16
        x = nn.functional.pad(x.view(torch.uint8), (0, more)).view(x.dtype)
        w = nn.functional.pad(self.weight.view(torch.uint8), (0, more)).view(x.dtype)
        y = torch.empty(len(x), self.N, device=x.device, dtype=torch.bfloat16)
        x, w, y_box = (TensorDescriptor.from_tensor(t, [1, 1]) for t in (x, w, y))
        grid = lambda meta: (triton.cdiv(y.shape[0], meta["BM"]), triton.cdiv(self.N, meta["BN"]))
        product[grid](x, w, self.weight_scale, y_box, *y.shape, x.shape[1])
        return y
"""
BOXES = """for name, sides in {"x": "MK", "w": "NK", "y": "MN"}.items():
        args[name].block_shape = [args["B" + side] for side in sides]"""


PRODUCT = '\n    args["scale"].copy_(args["x"].base.float() @ args["w"].base.float().T[:, 0])'


@pytest.mark.parametrize(("hook", "verdict"), [(BOXES, "clean"), (BOXES + PRODUCT, "rubric_leak")])
def test_a_hook_sets_boxes_and_runs_torch(tmp_path: Path, hook: str, verdict: str) -> None:
    report = report_of(tmp_path, TEXT.format(hook=hook), PROBLEM)
    assert report.verdict == verdict, report.findings
