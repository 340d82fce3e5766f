"""Class templates as template arguments, and names of namespaces inside those that directives use."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

PROGRAM = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
namespace ours { namespace rows {
namespace tools {
template <typename T> __device__ T down(T a, T b) { return (a / b) * b; }
template <typename T>
struct Term { __device__ T operator()(float x, T top) const { return exp(static_cast<T>(x) - top); } };
}
template <typename T> struct Sum { __device__ T operator()(T a, T b) const { return a + b; } };
template <typename T> struct Max { __device__ T operator()(T a, T b) const { return a > b ? a : b; } };
} }
USING

template <template <typename> class Op, typename T>
__device__ T over_warp(T value) {
  for (int m = 16; m > 0; m /= 2) value = Op<T>()(value, __shfl_xor_sync(0xffffffff, value, m));
  return value;
}

template <typename T>
__global__ void softmax(const float* x, float* y, int n) {
  const float* row = x + (size_t)blockIdx.x * n;
  int even = tools::down(n, 32);
  T top = -INFINITY, total = 0;
  for (int i = threadIdx.x; i < n; i += 32) top = Max<T>()(top, static_cast<T>(row[i]));
  top = over_warp<Max, T>(top);
  for (int i = threadIdx.x; i < even; i += 32) total = Sum<T>()(total, tools::Term<T>()(row[i], top));
  for (int i = even + threadIdx.x; i < n; i += 32) total += tools::Term<T>()(row[i], top);
  total = over_warp<Sum, T>(total);
  for (int i = threadIdx.x; i < n; i += 32) y[(size_t)blockIdx.x * n + i] = tools::Term<T>()(row[i], top) / total;
}

torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  softmax<TYPE><<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
"""
ext = load_inline("rows", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"])


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        return ext.run(x)
'''
USING = ("using namespace ours::rows;", "namespace short_ = ours::rows;\nusing namespace short_;")


@pytest.mark.parametrize("using", USING)
@pytest.mark.parametrize(("kind", "state"), [("double", "kept-by-precision"), ("float", "broken")])
def test_they_are_what_they_stand_for(tmp_path: Path, using: str, kind: str, state: str) -> None:
    path = tmp_path / "solution.py"
    path.write_text(PROGRAM.replace("USING", using).replace("TYPE", kind))
    report = lint([path], problem="04_kahan_softmax", raise_errors=True).files[0]
    assert {promise.id: promise.state for promise in report.promises} == {
        "compensated-sum": state,
        "authored-compute": "kept",
    }
