"""What runs on several GPUs share of one file: the same reports as where each finds everything anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbh_lint import engine, lint
from kbh_lint.findings import Report
from kbh_lint.host.gpu import kernel_cache
from kbh_lint.host.values.session import Session, Shared

TRITON = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

NEW = torch.cuda.get_device_capability()[0] == CHOSEN


@triton.jit
def gemm(x, w, s, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        depth = start + tl.arange(0, BK)
        keep = depth[None, :] < K
        a = tl.load(x + rows[:, None] * K + depth[None, :], mask=keep, other=0.0)
        b = tl.load(w + cols[:, None] * K + depth[None, :], mask=keep, other=0.0)
        if NEW:
            total = tl.dot(a, tl.trans(b), total)
        else:
            total = tl.dot(a.to(tl.bfloat16), tl.trans(b.to(tl.bfloat16)), total)
    tl.store(y + rows[:, None] * N + cols[None, :], (total * tl.load(s + cols)[None, :]).to(tl.bfloat16))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.empty(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.empty(N))

    def forward(self, x):
        M, K = x.shape
        N = self.weight.shape[0]
        y = torch.empty(M, N, dtype=torch.bfloat16, device=x.device)
        gemm[(triton.cdiv(M, 64), triton.cdiv(N, 64))](
            x, self.weight, self.weight_scale, y, M, N, K, BM=64, BN=64, BK=128
        )
        return y
"""

CUDA = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CHOSEN = torch.cuda.get_device_capability()[0]
TEXT = r"""
#include <torch/extension.h>
#include <cuda_fp8.h>
#include <cuda_bf16.h>
__global__ void scaled(const __nv_fp8_e4m3* x, const __nv_fp8_e4m3* w, const float* s, __nv_bfloat16* y, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    float total = 0.f;
#if __CUDA_ARCH__ CONDITION
    for (int k = 0; k < K; k++) total += float(x[row * K + k]) * float(w[col * K + k]);
#endif
    y[row * N + col] = __float2bfloat16(total * s[col]);
}
torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor s) {
    auto y = torch::empty({x.size(0), w.size(0)}, x.options().dtype(torch::kBFloat16));
    scaled<<<dim3(w.size(0) / 128, x.size(0)), 128>>>(
        (const __nv_fp8_e4m3*)x.data_ptr(), (const __nv_fp8_e4m3*)w.data_ptr(), s.data_ptr<float>(),
        (__nv_bfloat16*)y.data_ptr(), w.size(0), x.size(1));
    return y;
}
"""
module = load_inline(name="gemm", cpp_sources="torch::Tensor run(torch::Tensor, torch::Tensor, torch::Tensor);",
                     cuda_sources=TEXT, functions=["run"])


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.empty(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.empty(N))

    def forward(self, x):
        return module.run(x, self.weight, self.weight_scale)
'''


def apart(*given: Any) -> Session:
    """A session that finds everything itself."""
    made = Session(*given)
    own = Shared()
    own.idents, made.shared = made.idents, own
    return made


def looked(path: Path, patch: pytest.MonkeyPatch) -> tuple[Report, int]:
    """The report, and how many kernels were walked for it."""
    walks: list[object] = []

    def analyze(*given: Any, **named: Any) -> Any:
        walks.append(given)
        return walk(*given, **named)

    walk = kernel_cache.analyze
    with patch.context() as patched:
        patched.setattr(kernel_cache, "analyze", analyze)
        return lint([path], problem="01_fp8_gemm", trace=True, raise_errors=True), len(walks)


@pytest.mark.parametrize(
    ("text", "walks"),  # where three GPUs share, and where each has its own
    [
        pytest.param(TRITON.replace("CHOSEN", "9"), (2, 3), id="a constant of the GPU is seen by the kernel"),
        pytest.param(TRITON.replace("CHOSEN", "99"), (1, 3), id="a constant is the same on all GPUs"),
        pytest.param(CUDA.replace("CONDITION", ">= 1000"), (2, 3), id="a text that is another on one GPU"),
        pytest.param(CUDA.replace("CONDITION", ">= 800"), (1, 3), id="a condition that comes out the same"),
    ],
)
def test_kernels_are_walked_once_for_gpus_that_leave_them_the_same(
    text: str, walks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "solution.py"
    path.write_text(text, encoding="utf-8")
    shared, once = looked(path, monkeypatch)
    monkeypatch.setattr(engine, "Session", apart)
    alone, each = looked(path, monkeypatch)
    assert shared == alone
    assert (once, each) == walks
