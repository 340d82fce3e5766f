"""Kernels in CUDA with tensor maps of CuTe: made on the host, launched on a cluster, partitioned and multiplied."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

TEXT = r'''# kbh: problem=01_fp8_gemm
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline
SOURCE = r"""
#include <torch/extension.h>
#include <cute/tensor.hpp>
#include <cutlass/arch/barrier.h>
#include <cutlass/cluster_launch.hpp>
using namespace cute;
using Gate = cutlass::arch::ClusterTransactionBarrier;

template <class E, class LA, class LB>
struct Stage {
  alignas(128) ArrayEngine<E, cosize_v<LA>> a;
  alignas(128) ArrayEngine<E, cosize_v<LB>> b;
  uint64_t gate;
};

template <class Problem, class Tile, class E, class LA, class MapA, class LB, class MapB, class Mma>
__global__ static void product(Problem problem, Tile tile, CUTLASS_GRID_CONSTANT MapA const map_a,
                               CUTLASS_GRID_CONSTANT MapB const map_b, float* y, int n, E const*, Mma mma) {
  CUTE_STATIC_ASSERT_V(rank(problem) == Int<3>{});
  auto [M, N, K] = problem;
  Tensor A = map_a.get_tma_tensor(make_shape(M, K));
  Tensor B = map_b.get_tma_tensor(make_shape(N, K));
  Tensor C = make_tensor(make_gmem_ptr(y), make_shape(M, N), make_stride(n, Int<1>{}));
  auto at = make_coord(blockIdx.x, blockIdx.y, _);
  Tensor ga = local_tile(A, tile, at, Step<_1, X, _1>{});
  Tensor gb = local_tile(B, tile, at, Step<X, _1, _1>{});
  Tensor gc = local_tile(C, tile, at, Step<_1, _1, X>{});
  extern __shared__ char memory[];
  auto& stage = *reinterpret_cast<Stage<E, LA, LB>*>(memory);
  Tensor sa = make_tensor(make_smem_ptr(stage.a.begin()), LA{});
  Tensor sb = make_tensor(make_smem_ptr(stage.b.begin()), LB{});
  auto [from_a, to_a] = tma_partition(map_a, Int<0>{}, Layout<_1>{}, group_modes<0, 2>(sa), group_modes<0, 2>(ga));
  auto [from_b, to_b] = tma_partition(map_b, Int<0>{}, Layout<_1>{}, group_modes<0, 2>(sb), group_modes<0, 2>(gb));
  const bool first = cutlass::canonical_warp_idx_sync() == 0 && elect_one_sync();
  if (first) Gate::init(&stage.gate, 1);
  cluster_sync();
  ThrMMA mine = mma.get_thread_slice(threadIdx.x);
  Tensor tc = mine.partition_C(gc);
  Tensor sums = mine.make_fragment_C(tc);
  Tensor ra = mine.make_fragment_A(mine.partition_A(sa)), rb = mine.make_fragment_B(mine.partition_B(sb));
  clear(sums);
  for (int k = 0; k < size<1>(from_a); ++k) {
    if (first) {
      Gate::arrive_and_expect_tx(&stage.gate, sizeof(E) * (cosize_v<LA> + cosize_v<LB>));
      copy(map_a.with(stage.gate), from_a(_, k), to_a(_, 0));
      copy(map_b.with(stage.gate), from_b(_, k), to_b(_, 0));
    }
    Gate::wait(&stage.gate, k & 1);
    warpgroup_arrive();
    gemm(mma, ra(_, _, _, 0), rb(_, _, _, 0), sums);
    warpgroup_commit_batch();
    warpgroup_wait<0>();
  }
  axpby(1.0f, sums, 0.0f, tc);
}

__global__ void scaled(const float* sums, const float* s, __nv_bfloat16* y, long total, int cols) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < total) y[i] = __float2bfloat16(sums[i] * s[i % cols]);
}

at::Tensor run(at::Tensor x, at::Tensor w, at::Tensor s) {
  using E = ELEMENT;
  const int m = x.size(0), k = x.size(1), n = w.size(0);
  auto sums = at::empty({m, n}, x.options().dtype(at::kFloat));
  auto y = at::empty({m, n}, x.options().dtype(at::kBFloat16));
  auto problem = make_shape(m, n, k);
  auto tile = make_shape(Int<64>{}, Int<64>{}, Int<64>{});
  auto la = tile_to_shape(GMMA::Layout_K_SW64_Atom<E>{}, make_shape(Int<64>{}, Int<64>{}, Int<1>{}));
  auto mma = make_tiled_mma(ATOM{});
  Tensor a = make_tensor((E const*)x.data_ptr(), make_shape(m, k), make_stride(k, Int<1>{}));
  Tensor b = make_tensor((E const*)w.data_ptr(), make_shape(n, k), make_stride(k, Int<1>{}));
  auto map_a = make_tma_atom(SM90_TMA_LOAD{}, a, la(_, _, 0), make_shape(Int<64>{}, Int<64>{}));
  auto map_b = make_tma_atom(SM90_TMA_LOAD{}, b, la(_, _, 0), make_shape(Int<64>{}, Int<64>{}));
  void const* kernel = reinterpret_cast<void const*>(
      &product<decltype(problem), decltype(tile), E, decltype(la), decltype(map_a), decltype(la), decltype(map_b),
               decltype(mma)>);
  cutlass::ClusterLaunchParams how = {dim3(m / 64, n / 64), dim3(128), dim3(1, 1, 1), 32768};
  cutlass::launch_kernel_on_cluster(how, kernel, problem, tile, map_a, map_b, sums.data_ptr<float>(), n,
                                    (E const*)nullptr, mma);
  CUTE_CHECK_LAST();
  long total = sums.numel();
  scaled<<<(total + 255) / 256, 256>>>(sums.data_ptr<float>(), s.data_ptr<float>(), (__nv_bfloat16*)y.data_ptr(),
                                       total, n);
  return y;
}
"""
ext = load_inline("tma", cpp_sources="at::Tensor run(at::Tensor x, at::Tensor w, at::Tensor s);", cuda_sources=SOURCE,
                  functions=["run"])
class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))
    def forward(self, x):
        sides = (0, -x.shape[1] % 64, 0, -x.shape[0] % 64)
        a = F.pad(x.view(torch.uint8), sides).view(torch.float8_e4m3fn)
        b = F.pad(self.weight.view(torch.uint8), sides[:2]).view(torch.float8_e4m3fn)
        return ext.run(aVIEW, bVIEW, self.weight_scale)[: x.shape[0]]
'''


@pytest.mark.parametrize(
    ("atom", "element", "view", "state"),
    [
        ("SM90_64x64x32_F32E4M3E4M3_SS_TN<>", "cutlass::float_e4m3_t", "", "kept"),
        (
            "SM90_64x64x16_F32BF16BF16_SS<GMMA::Major::K, GMMA::Major::K>",
            "cutlass::bfloat16_t",
            ".bfloat16()",
            "broken",
        ),
    ],
)
def test_what_a_tensor_map_brings_is_what_is_multiplied(
    tmp_path: Path, atom: str, element: str, view: str, state: str
) -> None:
    path = tmp_path / "solution.py"
    text = TEXT.replace("ATOM", atom).replace("ELEMENT", element).replace("VIEW", view)
    path.write_text(text, encoding="utf-8")
    (report,) = lint([path], raise_errors=True).files
    states = {promise.id: promise.state for promise in report.promises}
    assert (states["fp8-products"], states["authored-compute"]) == (state, "kept"), report.promises
    classes = {finding.leak_class for finding in report.findings}
    assert classes == ({"fp8-upcast-bf16-gemm"} if state == "broken" else set()), report.findings
