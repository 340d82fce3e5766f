"""A text that overloads CUDA's functions for types of its own: `exp(float4)`, `atomicMax(float*, float)`."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import classes, lint, states

TEXT = r"""
#include <torch/extension.h>
#include <cfloat>
__device__ float4 exp(float4 a) { return {exp(a.x), exp(a.y), exp(a.z), exp(a.w)}; }
__device__ float4 less(float4 a, float b) { return {a.x - b, a.y - b, a.z - b, a.w - b}; }
MOST
__global__ void softmax(const float* x, float* y, int n) {
  __shared__ float top;
  if (threadIdx.x == 0) top = -FLT_MAX;
  __syncthreads();
  const float* row = x + (int64_t)blockIdx.x * n;
  float m = -FLT_MAX;
  for (int i = threadIdx.x; i < n; i += 256) m = fmaxf(m, row[i]);
  atomicMax(&top, m);
  __syncthreads();
  m = top;
  __shared__ TREE sums[256];
  TYPE s = 0, c = 0;
  for (int i = threadIdx.x; i < n / 4; i += 256) {
    float4 e = exp(less(reinterpret_cast<const float4*>(row)[i], m));
    ADD
  }
  sums[threadIdx.x] = (TREE)s - (TREE)c;
  __syncthreads();
  for (int w = 128; w; w >>= 1) {
    if (threadIdx.x < w) sums[threadIdx.x] += sums[threadIdx.x + w];
    __syncthreads();
  }
  float total = (float)sums[0];
  for (int i = threadIdx.x; i < n; i += 256) y[(int64_t)blockIdx.x * n + i] = exp(row[i] - m) / total;
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  softmax<<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
"""
BY_SIGN = """__device__ float atomicMax(float* at, float v) {
  return v >= 0 ? __int_as_float(atomicMax(reinterpret_cast<int*>(at), __float_as_int(v)))
                : __uint_as_float(atomicMin(reinterpret_cast<unsigned*>(at), __float_as_uint(v)));
}"""
BY_BIT = BY_SIGN.replace("v >= 0", "!signbit(v)")
ADDS = {
    "double": ("double", "s += (double)e.x + (double)e.y + (double)e.z + (double)e.w;"),
    "kahan": ("float", "for (float v : {e.x, e.y, e.z, e.w}) { float q = v - c, t = s + q; c = (t - s) - q; s = t; }"),
    "plain": ("float", "s += e.x + e.y + e.z + e.w;"),
}
SOLUTION = '''import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
SOURCE = r"""TEXT"""
ext = load_inline(name="s", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"])


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        return ext.run(x)
'''


@pytest.mark.parametrize("most", [BY_SIGN, BY_BIT], ids=["by its sign", "by a bit"])
@pytest.mark.parametrize("way", ADDS)
def test_a_maximum_of_floats_as_integers_before_a_sum(most: str, way: str, tmp_path: Path) -> None:
    kind, add = ADDS[way]
    text = TEXT.replace("MOST", most).replace("TYPE", kind).replace("ADD", add)
    text = text.replace("TREE", "float" if way == "plain" else "double")
    report = lint(tmp_path, SOLUTION.replace("TEXT", text), "04_kahan_softmax")
    if way == "plain":
        assert "missing-kahan" in classes(report)
    else:
        assert not classes(report), report.findings
        assert states(report)["authored-compute"] == "kept"
        assert states(report)["compensated-sum"] in ("kept", "kept-by-precision"), report.promises
