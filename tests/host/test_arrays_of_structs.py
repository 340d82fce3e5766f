"""An argument of a launch that holds an array of structs: each field leads where the launch let it lead."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import SIGNATURE, classes, lint, reasons, states

TEXT = """
#include <torch/extension.h>
struct Side { const __nv_fp8_e4m3* at; int rows; };
struct Work { Side side[2]; const float* s; __nv_bfloat16* y; int K; };
__global__ void gemm(const Work w) {
  int row = blockIdx.x, col = threadIdx.x;
  float total = 0.f;
  READ
  for (int k = 0; k < w.K; ++k) total += PRODUCT;
  w.y[row * w.side[1].rows + col] = __float2bfloat16(total * w.s[col]);
}
torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor s) {
  int M = x.size(0), K = x.size(1), N = w.size(0);
  auto y = torch::empty({M, N}, x.options().dtype(torch::kBFloat16));
  auto p = [](const torch::Tensor& t) { return (const __nv_fp8_e4m3*)t.data_ptr(); };
  FILL
  gemm<<<M, N>>>(work);
  return y;
}
"""
REST = "s.data_ptr<float>(), (__nv_bfloat16*)y.data_ptr(), K"
FILL = {
    "each by braces": "Work work; work.side[0] = {p(x), M}; work.side[1] = {p(w), N}; work.s = s.data_ptr<float>(); "
    "work.y = (__nv_bfloat16*)y.data_ptr(); work.K = K;",
    "all at once": f"Work work{{{{{{p(x), M}}, {{p(w), N}}}}, {REST}}};",
    "each field": "Work work; work.side[0].at = p(x); work.side[1].at = p(w); work.side[1].rows = N; "
    "work.s = s.data_ptr<float>(); work.y = (__nv_bfloat16*)y.data_ptr(); work.K = K;",
}
READ = {
    "in place": ("", "float(w.side[0].at[row * w.K + k]) * float(w.side[1].at[col * w.K + k])"),
    "by copies": (
        "const Side a = w.side[0], b = w.side[1];",
        "float(a.at[row * w.K + k]) * float(b.at[col * w.K + k])",
    ),
    "by references": (
        "const Side &a = w.side[0], &b = w.side[1];",
        "float(a.at[row * w.K + k]) * float(b.at[col * w.K + k])",
    ),
}
MODEL = """import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline("e", "SIGNATURE", r'''TEXT''', functions=["run"])


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        RETURN
"""
OURS = "return ext.run(x, self.weight, self.weight_scale)"
LEAK = (
    "ext.run(x, self.weight, self.weight_scale)\n"
    "        return (x.bfloat16() @ self.weight.bfloat16().t() * self.weight_scale).to(torch.bfloat16)"
)


def solution(fill: str, read: str, returns: str) -> str:
    first, product = READ[read]
    text = TEXT.replace("FILL", FILL[fill]).replace("READ", first).replace("PRODUCT", product)
    return MODEL.replace("SIGNATURE", SIGNATURE).replace("TEXT", text).replace("RETURN", returns)


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("fill", FILL)
def test_the_fields_of_an_array_of_structs_are_followed(tmp_path: Path, fill: str, read: str) -> None:
    report = lint(tmp_path, solution(fill, read, OURS))
    assert states(report)["authored-compute"] == "kept", reasons(report)
    assert "fp8-upcast-fp32-gemm" in classes(report) or states(report)["fp8-products"] == "broken"  # plain floats
    assert "dead-decoy-kernel" not in classes(report)


@pytest.mark.parametrize("fill", FILL)
def test_a_result_that_is_not_the_kernels_is_still_found(tmp_path: Path, fill: str) -> None:
    report = lint(tmp_path, solution(fill, "by copies", LEAK))
    assert states(report)["authored-compute"] == "broken", (classes(report), reasons(report))


def test_a_store_through_an_address_that_nobody_knows_is_not_no_store(tmp_path: Path) -> None:
    text = solution("each field", "in place", OURS)
    assert "w.y[row" in text
    hidden = text.replace("w.y[row", "elsewhere(w.K)[row").replace(
        "__global__", "extern __device__ __nv_bfloat16* elsewhere(int);\n__global__", 1
    )
    report = lint(tmp_path, hidden)
    assert "dead-decoy-kernel" not in classes(report), classes(report)
    assert states(report)["authored-compute"] == "unproven"
