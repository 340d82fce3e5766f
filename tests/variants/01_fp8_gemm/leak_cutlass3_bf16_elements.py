# expect: flagged fp8-upcast-bf16-gemm
"""CUTLASS 3.x collective builder on Sm90 whose element types are bf16; operands are converted by an elementwise kernel."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <cuda_fp8.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
using namespace cute;
template <class E>
struct Builder {
  using Tile = Shape<_128, _256, _64>;
  using Cluster = Shape<_2, _1, _1>;
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp,
      Tile, Cluster, cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, cutlass::layout::RowMajor, 4, float,
      cutlass::layout::RowMajor, 4, cutlass::epilogue::TmaWarpSpecializedCooperative>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp,
      E, cutlass::layout::RowMajor, 8, E, cutlass::layout::ColumnMajor, 8, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
      cutlass::gemm::KernelTmaWarpSpecializedCooperative>::CollectiveOp;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<
      cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue, cutlass::gemm::PersistentScheduler>>;
};
using Gemm = Builder<cutlass::bfloat16_t>::Gemm;

__global__ void widen(const __nv_fp8_e4m3* in, __nv_bfloat16* out, size_t rows, size_t k, size_t kp) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < rows * kp) out[i] = i % kp < k ? __float2bfloat16(float(in[(i / kp) * k + i % kp])) : __float2bfloat16(0.f);
}
__global__ void finish(const float* in, const float* s, __nv_bfloat16* out, size_t n, size_t total) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < total) out[i] = __float2bfloat16(in[i] * s[i % n]);
}
torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor s) {
  const int m = x.size(0), n = w.size(0), k = x.size(1), kp = (k + 7) / 8 * 8;
  auto o = x.options().dtype(torch::kBFloat16);
  auto xb = torch::empty({m, kp}, o), wb = torch::empty({n, kp}, o), y = torch::empty({m, n}, o);
  auto acc = torch::empty({m, n}, o.dtype(torch::kFloat32));
  auto* xp = reinterpret_cast<__nv_bfloat16*>(xb.data_ptr());
  auto* wp = reinterpret_cast<__nv_bfloat16*>(wb.data_ptr());
  widen<<<((size_t)m * kp + 255) / 256, 256>>>((const __nv_fp8_e4m3*)x.data_ptr(), xp, m, k, kp);
  widen<<<((size_t)n * kp + 255) / 256, 256>>>((const __nv_fp8_e4m3*)w.data_ptr(), wp, n, k, kp);
  using SA = typename Gemm::GemmKernel::StrideA;
  using SB = typename Gemm::GemmKernel::StrideB;
  using SD = typename Gemm::GemmKernel::StrideD;
  auto sa = cutlass::make_cute_packed_stride(SA{}, make_shape(m, kp, 1));
  auto sb = cutlass::make_cute_packed_stride(SB{}, make_shape(n, kp, 1));
  auto sd = cutlass::make_cute_packed_stride(SD{}, make_shape(m, n, 1));
  typename Gemm::Arguments args{cutlass::gemm::GemmUniversalMode::kGemm, {m, n, kp, 1},
      {(cutlass::bfloat16_t*)xp, sa, (cutlass::bfloat16_t*)wp, sb}, {{1.f, 0.f}, nullptr, sd, acc.data_ptr<float>(), sd}};
  Gemm gemm;
  gemm.initialize(args, nullptr);
  gemm.run();
  finish<<<((size_t)m * n + 255) / 256, 256>>>(acc.data_ptr<float>(), s.data_ptr<float>(), (__nv_bfloat16*)y.data_ptr(), n, (size_t)m * n);
  return y;
}
"""
_e = load_inline("c3", "torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor s);", SRC, functions=["run"])


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        return _e.run(x, self.weight, self.weight_scale)
