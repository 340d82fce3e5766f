"""Kernels in CUDA that multiply with CuTe: what a tiled product runs on is told by its atom."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

TEXT = r'''# kbh: problem=01_fp8_gemm
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
SOURCE = r"""
#include <torch/extension.h>
#include <cute/tensor.hpp>
using namespace cute;
using In = cutlass::float_e4m3_t;
using Held = HELD;
using Mma = TiledMMA<MMA_Atom<ATOM>, Layout<Shape<_2, _2, _1>>>;
template <int M, int N, int K>
__global__ void tiles(const In* x, const In* w, const float* s, cutlass::bfloat16_t* y, int rows, int cols, int depth) {
  __shared__ Held a[M * K];
  __shared__ Held b[N * K];
  Mma mma;
  auto mine = mma.get_slice(threadIdx.x);
  Tensor A = make_tensor(make_smem_ptr(a), make_layout(make_shape(Int<M>{}, Int<K>{}), make_stride(Int<K>{}, _1{})));
  Tensor B = make_tensor(make_smem_ptr(b), make_layout(make_shape(Int<N>{}, Int<K>{}), make_stride(Int<K>{}, _1{})));
  Tensor at = mine.partition_C(make_identity_tensor(make_shape(Int<M>{}, Int<N>{})));
  Tensor ra = mine.partition_fragment_A(A), rb = mine.partition_fragment_B(B);
  Tensor acc = partition_fragment_C(mma, make_shape(Int<M>{}, Int<N>{}));
  clear(acc);
  for (int k = 0; k < depth; k += K) {
    for (int i = threadIdx.x; i < M * K; i += 128)
      a[i] = k + i % K < depth ? Held(x[(blockIdx.y * M + i / K) * depth + k + i % K]) : Held(0.f);
    for (int i = threadIdx.x; i < N * K; i += 128)
      b[i] = k + i % K < depth ? Held(w[(blockIdx.x * N + i / K) * depth + k + i % K]) : Held(0.f);
    __syncthreads();
    copy(mine.partition_A(A), ra);
    copy(mine.partition_B(B), rb);
    gemm(mma, ra, rb, acc);
    __syncthreads();
  }
  for (int i = 0; i < size(acc); ++i) {
    const int r = blockIdx.y * M + get<0>(at(i)), c = blockIdx.x * N + get<1>(at(i));
    if (r < rows && c < cols) y[r * cols + c] = cutlass::bfloat16_t(acc(i) * s[c]);
  }
}
at::Tensor run(at::Tensor x, at::Tensor w, at::Tensor s) {
  auto y = at::empty({x.size(0), w.size(0)}, x.options().dtype(at::kBFloat16));
  tiles<32, 64, 32><<<dim3(w.size(0) / 64, x.size(0) / 32), 128>>>(
      (const In*)x.data_ptr(), (const In*)w.data_ptr(), s.data_ptr<float>(), (cutlass::bfloat16_t*)y.data_ptr(),
      x.size(0), w.size(0), x.size(1));
  return y;
}
"""
ext = load_inline("e", cpp_sources="at::Tensor run(at::Tensor x, at::Tensor w, at::Tensor s);", cuda_sources=SOURCE,
                  functions=["run"])
class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))
    def forward(self, x):
        return ext.run(x, self.weight, self.weight_scale)
'''


@pytest.mark.parametrize(
    ("atom", "held", "verdict", "state"),
    [
        ("SM89_16x8x32_F32E4M3E4M3F32_TN", "cutlass::float_e4m3_t", "clean", "kept"),
        ("SM80_16x8x16_F32F16F16F32_TN", "cutlass::half_t", "rubric_leak", "broken"),
        ("SM80_16x8x16_F32BF16BF16F32_TN", "cutlass::bfloat16_t", "rubric_leak", "broken"),
    ],
)
def test_an_atom_says_what_a_tiled_product_runs_on(
    tmp_path: Path, atom: str, held: str, verdict: str, state: str
) -> None:
    path = tmp_path / "solution.py"
    path.write_text(TEXT.replace("ATOM", atom).replace("HELD", held), encoding="utf-8")
    (report,) = lint([path], raise_errors=True).files
    states = {promise.id: promise.state for promise in report.promises}
    assert (report.verdict, states["fp8-products"]) == (verdict, state), report.promises
