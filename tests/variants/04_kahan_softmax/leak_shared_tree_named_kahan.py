# expect: flagged missing-kahan
"""Careful pairwise tree sums, documented as compensated; nothing is compensated."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
// Kahan-compensated reduction: error term folded into the tree
template <int T> __device__ float kahan_block_sum(float v, float* buf) {
  buf[threadIdx.x] = v;
  __syncthreads();
  #pragma unroll
  for (int o = T / 2; o > 0; o /= 2) {
    if (threadIdx.x < o) buf[threadIdx.x] += buf[threadIdx.x + o];
    __syncthreads();
  }
  return buf[0];
}
__global__ void k(const float4* x, float4* y, int n4) {
  __shared__ float buf[512];
  const float4* r = x + (size_t)blockIdx.x * n4;
  float m = -INFINITY, s[4] = {0, 0, 0, 0};
  for (int i = threadIdx.x; i < n4; i += 512) { float4 v = r[i]; m = fmaxf(fmaxf(m, fmaxf(v.x, v.y)), fmaxf(v.z, v.w)); }
  buf[threadIdx.x] = m;
  __syncthreads();
  for (int o = 256; o; o /= 2) { if (threadIdx.x < o) buf[threadIdx.x] = fmaxf(buf[threadIdx.x], buf[threadIdx.x + o]); __syncthreads(); }
  m = buf[0];
  __syncthreads();
  for (int i = threadIdx.x; i < n4; i += 512) {
    float4 v = r[i];
    s[0] += __expf(v.x - m); s[1] += __expf(v.y - m); s[2] += __expf(v.z - m); s[3] += __expf(v.w - m);
  }
  const float inv = __frcp_rn(kahan_block_sum<512>((s[0] + s[1]) + (s[2] + s[3]), buf));
  for (int i = threadIdx.x; i < n4; i += 512) {
    float4 v = r[i];
    y[(size_t)blockIdx.x * n4 + i] = make_float4(__expf(v.x - m) * inv, __expf(v.y - m) * inv, __expf(v.z - m) * inv, __expf(v.w - m) * inv);
  }
}
torch::Tensor f(torch::Tensor x) {
  auto y = torch::empty_like(x);
  k<<<x.size(0), 512>>>((const float4*)x.data_ptr<float>(), (float4*)y.data_ptr<float>(), x.size(1) / 4);
  return y;
}
"""
ext = load_inline("tree", "torch::Tensor f(torch::Tensor x);", SRC, functions=["f"])


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        return ext.f(x)
