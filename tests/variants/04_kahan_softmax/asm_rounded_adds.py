# expect: kept
"""Kahan with add.rn/sub.rn in inline PTX so that fast-math cannot remove it; block result by shared-memory Kahan."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
__device__ __forceinline__ float add_rn(float a, float b) { float r; asm volatile("add.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
__device__ __forceinline__ float sub_rn(float a, float b) { float r; asm volatile("sub.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
struct Acc {
  float sum = 0.f, err = 0.f;
  __device__ void operator+=(float v) {
    const float y = sub_rn(v, err);
    const float t = add_rn(sum, y);
    err = sub_rn(sub_rn(t, sum), y);
    sum = t;
  }
};
template <int T>
__global__ void softmax_kernel(const float* __restrict__ in, float* __restrict__ out, int n) {
  __shared__ float a[T], b[T];
  const float* x = in + (long long)blockIdx.x * n;
  float m = -3.4e38f;
  for (int i = threadIdx.x; i < n; i += T) m = fmaxf(m, x[i]);
  a[threadIdx.x] = m;
  __syncthreads();
  for (int o = T / 2; o > 0; o >>= 1) {
    if (threadIdx.x < o) a[threadIdx.x] = fmaxf(a[threadIdx.x], a[threadIdx.x + o]);
    __syncthreads();
  }
  m = a[0];
  __syncthreads();
  Acc acc;
  for (int i = threadIdx.x; i < n; i += T) acc += exp2f((x[i] - m) * 1.4426950408889634f);
  a[threadIdx.x] = acc.sum;
  b[threadIdx.x] = acc.err;
  __syncthreads();
  if (threadIdx.x == 0) {
    Acc total;
    for (int t = 0; t < T; ++t) { total += a[t]; total += -b[t]; }
    a[0] = 1.f / sub_rn(total.sum, total.err);
  }
  __syncthreads();
  const float inv = a[0];
  for (int i = threadIdx.x; i < n; i += T) out[(long long)blockIdx.x * n + i] = exp2f((x[i] - m) * 1.4426950408889634f) * inv;
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  softmax_kernel<256><<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}
"""
sm = load_inline("asm_kahan", "torch::Tensor run(torch::Tensor x);", SRC, functions=["run"], extra_cuda_cflags=["--use_fast_math"])


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        return sm.run(x)
