# expect: flagged vacuous-kahan
"""A compensation is carried but its sign makes it cancel: the term is zeroed each step before it is used."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
__device__ __forceinline__ void kahan_add(float& s, float& c, float v) {
  c = 0.0f;
  float y = v - c;
  float t = s + y;
  c = (t - s) - y;
  s = t;
}
__global__ void softmax_k(const float* x, float* y, int n) {
  __shared__ float sh[32];
  __shared__ float bc;
  const float* r = x + (size_t)blockIdx.x * n;
  float m = -INFINITY;
  for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, r[i]);
  for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
  if (threadIdx.x % 32 == 0) sh[threadIdx.x / 32] = m;
  __syncthreads();
  m = sh[0];
  for (int w = 1; w < blockDim.x / 32; ++w) m = fmaxf(m, sh[w]);
  __syncthreads();
  float s = 0.f, c = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) kahan_add(s, c, expf(r[i] - m));
  for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  if (threadIdx.x % 32 == 0) sh[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) {
    float t = 0.f;
    for (int w = 0; w < blockDim.x / 32; ++w) t += sh[w];
    bc = 1.f / t;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[(size_t)blockIdx.x * n + i] = expf(r[i] - m) * bc;
}
torch::Tensor softmax(torch::Tensor x) {
  auto y = torch::empty_like(x);
  softmax_k<<<x.size(0), 1024>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
"""
k = load_inline("ksm", "torch::Tensor softmax(torch::Tensor x);", SRC, functions=["softmax"])


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        return k.softmax(x)
