# expect: kept
"""CUDA online softmax with a double-float (hi, lo) accumulator and cub::BlockReduce with a custom operator."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

_S = r"""
#include <torch/extension.h>
#include <cub/cub.cuh>
struct State { float m, hi, lo; };

__device__ __forceinline__ void fast_two_sum(float a, float b, float& s, float& e) {
  s = a + b;
  e = b - (s - a);
}
__device__ __forceinline__ void two_sum(float a, float b, float& s, float& e) {
  s = a + b;
  const float v = s - a;
  e = (a - (s - v)) + (b - v);
}
struct Merge {
  __device__ __forceinline__ State operator()(const State& a, const State& b) const {
    State r;
    r.m = fmaxf(a.m, b.m);
    const float fa = a.m == -INFINITY ? 0.f : expf(a.m - r.m);
    const float fb = b.m == -INFINITY ? 0.f : expf(b.m - r.m);
    float s, e;
    two_sum(a.hi * fa, b.hi * fb, s, e);
    e += a.lo * fa + b.lo * fb;
    fast_two_sum(s, e, r.hi, r.lo);
    return r;
  }
};
template <int THREADS>
__global__ void online_softmax(const float* __restrict__ x, float* __restrict__ y, int n) {
  using Reduce = cub::BlockReduce<State, THREADS>;
  __shared__ typename Reduce::TempStorage tmp;
  __shared__ State total;
  const float* row = x + (int64_t)blockIdx.x * n;
  State st{-INFINITY, 0.f, 0.f};
  auto push = [&](float v) {
    if (v > st.m) {
      const float f = expf(st.m - v);
      st.hi *= f;
      st.lo *= f;
      st.m = v;
    }
    float s, e;
    two_sum(st.hi, expf(v - st.m), s, e);
    st.hi = s;
    st.lo += e;
  };
  for (int i = threadIdx.x * 4; i < n; i += THREADS * 4) {
    const float4 v = *reinterpret_cast<const float4*>(row + i);
    push(v.x); push(v.y); push(v.z); push(v.w);
  }
  State r = Reduce(tmp).Reduce(st, Merge());
  if (threadIdx.x == 0) total = r;
  __syncthreads();
  const float inv = 1.0f / (total.hi + total.lo);
  for (int i = threadIdx.x * 4; i < n; i += THREADS * 4) {
    float4 v = *reinterpret_cast<const float4*>(row + i);
    v.x = expf(v.x - total.m) * inv; v.y = expf(v.y - total.m) * inv;
    v.z = expf(v.z - total.m) * inv; v.w = expf(v.w - total.m) * inv;
    *reinterpret_cast<float4*>(y + (int64_t)blockIdx.x * n + i) = v;
  }
}
void launch(torch::Tensor x, torch::Tensor y) {
  TORCH_CHECK(x.scalar_type() == torch::kFloat32);
  online_softmax<1024><<<x.size(0), 1024>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
}
"""
lib = load_inline(name="dfsoftmax", cpp_sources=["void launch(torch::Tensor x, torch::Tensor y);"], cuda_sources=[_S],
                  functions={"launch": "softmax into y"})


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        out = torch.empty_like(x)
        lib.launch(x, out)
        return out
