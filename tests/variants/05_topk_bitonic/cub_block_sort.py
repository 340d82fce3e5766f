# expect: kept
"""cub's block primitives inside an authored two-pass kernel, launched cooperatively."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = "std::vector<at::Tensor> run(at::Tensor x, int64_t k);"
CUDA = r'''
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>
#include <cub/cub.cuh>
namespace cg = cooperative_groups;

template <int THREADS, int ITEMS>
__global__ void sorted_rows(const float* x, float* cand_v, int* cand_i, float* out_v, int64_t* out_i, int n, int k, int parts) {
  using Sort = cub::BlockRadixSort<float, THREADS, ITEMS, int>;
  __shared__ typename Sort::TempStorage tmp;
  float keys[ITEMS]; int vals[ITEMS];
  for (int job = blockIdx.x; job < parts * gridDim.y; job += gridDim.x) {
    int row = blockIdx.y, base = job * THREADS * ITEMS;
    if (job >= parts) break;
#pragma unroll
    for (int j = 0; j < ITEMS; ++j) {
      int c = base + threadIdx.x * ITEMS + j;
      keys[j] = c < n ? x[(size_t)row * n + c] : -INFINITY;
      vals[j] = c;
    }
    Sort(tmp).SortDescending(keys, vals);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < ITEMS; ++j) {
      int r = threadIdx.x * ITEMS + j;
      if (r < k) { cand_v[(row * parts + job) * k + r] = keys[j]; cand_i[(row * parts + job) * k + r] = vals[j]; }
    }
  }
  cg::this_grid().sync();
  if (blockIdx.x != 0) return;
  int row = blockIdx.y, m = parts * k;
#pragma unroll
  for (int j = 0; j < ITEMS; ++j) {
    int c = threadIdx.x * ITEMS + j;
    keys[j] = c < m ? cand_v[row * m + c] : -INFINITY;
    vals[j] = c < m ? cand_i[row * m + c] : 0;
  }
  Sort(tmp).SortDescending(keys, vals);
#pragma unroll
  for (int j = 0; j < ITEMS; ++j) {
    int r = threadIdx.x * ITEMS + j;
    if (r < k) { out_v[row * k + r] = keys[j]; out_i[row * k + r] = vals[j]; }
  }
}

std::vector<at::Tensor> run(at::Tensor x, int64_t k64) {
  int batch = x.size(0), n = x.size(1), k = k64;
  int parts = (n + 4095) / 4096;
  auto f = x.options();
  at::Tensor cv = at::empty({batch, parts, k}, f), ci = at::empty({batch, parts, k}, f.dtype(at::kInt));
  at::Tensor v = at::empty({batch, k}, f), i = at::empty({batch, k}, f.dtype(at::kLong));
  const float* xp = x.data_ptr<float>();
  float* cvp = cv.data_ptr<float>(); int* cip = ci.data_ptr<int>();
  float* vp = v.data_ptr<float>(); int64_t* ip = i.data_ptr<int64_t>();
  void* args[] = {&xp, &cvp, &cip, &vp, &ip, &n, &k, &parts};
  C10_CUDA_CHECK(cudaLaunchCooperativeKernel((void*)sorted_rows<512, 8>, dim3(parts, batch), dim3(512), args, 0,
                                             at::cuda::getCurrentCUDAStream()));
  return {v, i};
}
'''
ext = load_inline(name="coop_sort", cpp_sources=[CPP], cuda_sources=[CUDA], functions=["run"], with_cuda=True)


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = int(k)
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x):
        v, i = ext.run(x, self.k)
        return v, i
