# expect: kept
"""The recurrence token by token in fp32: a warp a column block, state in registers, no chunks at all."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>

template <int K, int COLS>
__global__ void __launch_bounds__(128) recur(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k,
    const __nv_bfloat16* __restrict__ v, const float* __restrict__ g, const __nv_bfloat16* __restrict__ beta,
    __nv_bfloat16* __restrict__ o, int T, int H, int V, float scale) {
  constexpr int PER = K / 32;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int b = blockIdx.y / H, h = blockIdx.y % H;
  const int col0 = (blockIdx.x * 4 + warp) * COLS;
  float s[COLS][PER] = {};
  for (int t = 0; t < T; ++t) {
    const size_t row = ((size_t)b * T + t) * H + h;
    float kk[PER], qq[PER];
#pragma unroll
    for (int i = 0; i < PER; ++i) {
      int d = i * 32 + lane;
      kk[i] = __bfloat162float(k[row * K + d]);
      qq[i] = __bfloat162float(q[row * K + d]) * scale;
      float dec = __expf(g[row * K + d]);
#pragma unroll
      for (int c = 0; c < COLS; ++c) s[c][i] *= dec;
    }
    const float be = __bfloat162float(beta[row]);
#pragma unroll
    for (int c = 0; c < COLS; ++c) {
      float dot = 0.f;
#pragma unroll
      for (int i = 0; i < PER; ++i) dot = fmaf(s[c][i], kk[i], dot);
#pragma unroll
      for (int m = 16; m; m >>= 1) dot += __shfl_xor_sync(0xffffffff, dot, m);
      float delta = (__bfloat162float(v[row * V + col0 + c]) - dot) * be, y = 0.f;
#pragma unroll
      for (int i = 0; i < PER; ++i) { s[c][i] = fmaf(kk[i], delta, s[c][i]); y = fmaf(qq[i], s[c][i], y); }
#pragma unroll
      for (int m = 16; m; m >>= 1) y += __shfl_xor_sync(0xffffffff, y, m);
      if (lane == 0) o[row * V + col0 + c] = __float2bfloat16(y);
    }
  }
}

at::Tensor kda(at::Tensor q, at::Tensor k, at::Tensor v, at::Tensor g, at::Tensor beta, double scale) {
  auto o = at::empty_like(v);
  int B = q.size(0), T = q.size(1), H = q.size(2), V = v.size(3);
  auto p = [](const at::Tensor& t) { return reinterpret_cast<const __nv_bfloat16*>(t.data_ptr<at::BFloat16>()); };
  recur<128, 4><<<dim3(V / 16, B * H), 128, 0, at::cuda::getCurrentCUDAStream()>>>(
      p(q), p(k), p(v), g.data_ptr<float>(), p(beta), reinterpret_cast<__nv_bfloat16*>(o.data_ptr<at::BFloat16>()), T, H, V, (float)scale);
  return o;
}
"""
ext = load_inline(
    "kda_token", "at::Tensor kda(at::Tensor q, at::Tensor k, at::Tensor v, at::Tensor g, at::Tensor beta, double scale);",
    CUDA, functions=["kda"],
)


class Model(nn.Module):
    def __init__(self, B, T, H, K, V, chunk_size=64):
        super().__init__()
        self.scale = K**-0.5
        self.C = chunk_size
        self.register_buffer("_dummy", torch.zeros(1), persistent=False)

    def forward(self, q, k, v, g, beta):
        return ext.kda(q, k, v, g, beta, self.scale)
