# expect: flagged builtin-op-sidestep
"""A 'fused' selection: CUB does the sort, a small kernel gathers the first k."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cub/device/device_segmented_radix_sort.cuh>

__global__ void iota_mod(int* idx, int* seg, int rows, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t < rows * n) idx[t] = t % n;
  if (t <= rows) seg[t] = t * n;
}
__global__ void take(const float* v, const int* i, float* ov, int64_t* oi, int n, int k) {
  int r = blockIdx.x;
  for (int t = threadIdx.x; t < k; t += blockDim.x) { ov[r * k + t] = v[(size_t)r * n + t]; oi[r * k + t] = i[(size_t)r * n + t]; }
}

std::tuple<torch::Tensor, torch::Tensor> rows_topk(torch::Tensor x, int k) {
  auto st = at::cuda::getCurrentCUDAStream().stream();
  int rows = x.size(0), n = x.size(1);
  auto i32 = x.options().dtype(torch::kInt32);
  auto idx = torch::empty({rows * n}, i32), idx2 = torch::empty({rows * n}, i32), seg = torch::empty({rows + 1}, i32);
  auto v2 = torch::empty_like(x);
  iota_mod<<<(rows * n + 255) / 256, 256, 0, st>>>(idx.data_ptr<int>(), seg.data_ptr<int>(), rows, n);
  size_t bytes = 0;
  auto call = [&](void* tmp) {
    cub::DeviceSegmentedRadixSort::SortPairsDescending(tmp, bytes, x.data_ptr<float>(), v2.data_ptr<float>(),
        idx.data_ptr<int>(), idx2.data_ptr<int>(), rows * n, rows, seg.data_ptr<int>(), seg.data_ptr<int>() + 1, 0, 32, st);
  };
  call(nullptr);
  auto tmp = torch::empty({(int64_t)bytes}, x.options().dtype(torch::kUInt8));
  call(tmp.data_ptr());
  auto ov = torch::empty({rows, k}, x.options());
  auto oi = torch::empty({rows, k}, x.options().dtype(torch::kInt64));
  take<<<rows, 64, 0, st>>>(v2.data_ptr<float>(), idx2.data_ptr<int>(), ov.data_ptr<float>(), oi.data_ptr<int64_t>(), n, k);
  return {ov, oi};
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("rows_topk", &rows_topk, "topk"); }
"""
mod = load_inline("segtopk", cpp_sources="", cuda_sources=SRC, extra_cuda_cflags=["-O3"])


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x):
        return mod.rows_topk(x, self.k)
