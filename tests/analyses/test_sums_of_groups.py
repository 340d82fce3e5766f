"""Sums of a group in 16 bits that are added on in fp32, and what only looks like them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

PROGRAM = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
__global__ void gemm(const __nv_bfloat16* x, const unsigned char* packed, const __nv_bfloat16* scales,
                     const __nv_bfloat16* zeros, __nv_bfloat16* y, int N, int K) {
  const int n = blockIdx.x * 128 + threadIdx.x, m = blockIdx.y;
  const __nv_bfloat162* row = (const __nv_bfloat162*)(x + (long)m * K);
  float total = 0.f;
  for (int group = 0; group < K / 128; ++group) {
    const __nv_bfloat162 s = __bfloat162bfloat162(scales[group * N + n]);
    const __nv_bfloat162 z = __bfloat162bfloat162(zeros[group * N + n]);
    START
    for (int i = group * 64; i < group * 64 + 64; ++i) {
      const unsigned byte = packed[(long)i * N + n];
      const __nv_bfloat162 q = __floats2bfloat162_rn((float)(byte & 15), (float)(byte >> 4));
      STEP
    }
    END
  }
  y[(long)m * N + n] = __float2bfloat16(total);
}
torch::Tensor run(torch::Tensor x, torch::Tensor packed, torch::Tensor scales, torch::Tensor zeros) {
  const int M = x.size(0), K = x.size(1), N = packed.size(1);
  auto y = torch::empty({M, N}, x.options());
  gemm<<<dim3(N / 128, M), 128>>>((const __nv_bfloat16*)x.data_ptr(), packed.data_ptr<unsigned char>(),
      (const __nv_bfloat16*)scales.data_ptr(), (const __nv_bfloat16*)zeros.data_ptr(), (__nv_bfloat16*)y.data_ptr(),
      N, K);
  return y;
}
"""
built = load_inline(
    name="groups", cpp_sources="torch::Tensor run(torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor);",
    cuda_sources=CUDA, functions=["run"],
)


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))

    def forward(self, x):
        return built.run(x, self.w_q, self.scales, self.zeros)
'''
SUBTRACTED = "__hmul2(__hsub2(q, z), s)"
WIDE = "".join(f"total = fmaf(__{half}2float(row[i]), __{half}2float(w), total);" for half in ("low", "high"))
VARIANTS = {
    "pairs of a group": (
        "__nv_bfloat162 pair = __float2bfloat162_rn(0.f);",
        f"pair = __hfma2(row[i], {SUBTRACTED}, pair);",
        "total += __low2float(pair) + __high2float(pair);",
        "interesting",
    ),
    "weights in bf16, sums in fp32": ("", f"const __nv_bfloat162 w = {SUBTRACTED}; {WIDE}", "", "clean"),
    "weights by multiply-adds in bf16": (
        "const __nv_bfloat162 shift = __hmul2(__hneg2(z), s);",
        f"const __nv_bfloat162 w = __hfma2(q, s, shift); {WIDE}",
        "",
        "clean",
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_sum_of_16_bits_that_goes_on_in_a_loop_is_told(tmp_path: Path, variant: str) -> None:
    start, step, end, verdict = VARIANTS[variant]
    path = tmp_path / "solution.py"
    path.write_text(PROGRAM.replace("START", start).replace("STEP", step).replace("END", end), encoding="utf-8")
    (report,) = lint([path], problem="07_w4a16_gemm").files
    found = [finding.rule for finding in report.findings]
    assert (report.verdict, found) == (verdict, ["KBH404"] if verdict == "interesting" else [])
