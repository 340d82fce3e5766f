# expect: kept
"""One cluster a row: distributed shared memory carries (sum, compensation) pairs between blocks; cudaLaunchKernelEx with a cluster attribute."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <cooperative_groups.h>
#include <c10/cuda/CUDAStream.h>
namespace cg = cooperative_groups;
__device__ __forceinline__ void kahan(float2& a, float v) {
  const float y = __fadd_rn(v, -a.y), t = __fadd_rn(a.x, y);
  a.y = __fadd_rn(__fadd_rn(t, -a.x), -y);
  a.x = t;
}
__global__ void __launch_bounds__(256) k(const float* x, float* y, int n) {
  cg::cluster_group cl = cg::this_cluster();
  const int ranks = cl.num_blocks(), rank = cl.block_rank(), row = blockIdx.x / ranks;
  __shared__ float bm[8], m_here;
  __shared__ float2 bs[8], s_here;
  const float* r = x + (size_t)row * n;
  float m = -INFINITY;
  for (int i = rank * 256 + threadIdx.x; i < n; i += ranks * 256) m = fmaxf(m, r[i]);
  for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
  if (threadIdx.x % 32 == 0) bm[threadIdx.x / 32] = m;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 8; ++i) m = fmaxf(m, bm[i]);
    m_here = m;
  }
  cl.sync();
  m = -INFINITY;
  for (int i = 0; i < ranks; ++i) m = fmaxf(m, *cl.map_shared_rank(&m_here, i));
  float2 a = make_float2(0.f, 0.f);
  for (int i = rank * 256 + threadIdx.x; i < n; i += ranks * 256) kahan(a, __expf(r[i] - m));
  for (int o = 16; o; o >>= 1) {
    const float s = __shfl_xor_sync(0xffffffff, a.x, o), c = __shfl_xor_sync(0xffffffff, a.y, o);
    kahan(a, s);
    a.y += c;
  }
  if (threadIdx.x % 32 == 0) bs[threadIdx.x / 32] = a;
  __syncthreads();
  if (threadIdx.x == 0) {
    a = bs[0];
    for (int i = 1; i < 8; ++i) { kahan(a, bs[i].x); kahan(a, -bs[i].y); }
    s_here = a;
  }
  cl.sync();
  float2 t = make_float2(0.f, 0.f);
  for (int i = 0; i < ranks; ++i) {
    const float2 v = *cl.map_shared_rank(&s_here, i);
    kahan(t, v.x);
    kahan(t, -v.y);
  }
  const float inv = 1.f / (t.x - t.y);
  for (int i = rank * 256 + threadIdx.x; i < n; i += ranks * 256) y[(size_t)row * n + i] = __expf(r[i] - m) * inv;
  cl.sync();
}
torch::Tensor f(torch::Tensor x) {
  auto y = torch::empty_like(x);
  cudaLaunchConfig_t c{};
  c.gridDim = dim3(x.size(0) * 8);
  c.blockDim = dim3(256);
  c.stream = c10::cuda::getCurrentCUDAStream();
  cudaLaunchAttribute a[1];
  a[0].id = cudaLaunchAttributeClusterDimension;
  a[0].val.clusterDim = {8, 1, 1};
  c.attrs = a;
  c.numAttrs = 1;
  const float* xp = x.data_ptr<float>();
  float* yp = y.data_ptr<float>();
  const int n = x.size(1);
  cudaLaunchKernelEx(&c, k, xp, yp, n);
  return y;
}
"""
ext = load_inline("clsm", "torch::Tensor f(torch::Tensor x);", SRC, functions=["f"], extra_cuda_cflags=["-arch=sm_90a"])


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        return ext.f(x)
