# expect: flagged builtin-op-sidestep,forbidden-op,forbidden-op-alias
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = """
#include <torch/extension.h>
#include <thrust/device_ptr.h>
#include <thrust/sort.h>
#include <thrust/sequence.h>
#include <thrust/execution_policy.h>
#include <c10/cuda/CUDAStream.h>

void topk_rows(const at::Tensor& x, at::Tensor& keys, at::Tensor& idx, at::Tensor& v, at::Tensor& i) {
  const auto n = x.size(1), k = v.size(1);
  auto policy = thrust::cuda::par.on(c10::cuda::getCurrentCUDAStream());
  keys.copy_(x);
  for (int64_t r = 0; r < x.size(0); ++r) {
    thrust::device_ptr<float> kp(keys.data_ptr<float>() + r * n);
    thrust::device_ptr<int64_t> ip(idx.data_ptr<int64_t>());
    thrust::sequence(policy, ip, ip + n);
    thrust::stable_sort_by_key(policy, kp, kp + n, ip, thrust::greater<float>());
    v[r].copy_(keys[r].slice(0, 0, k));
    i[r].copy_(idx.slice(0, 0, k));
  }
}
"""
ext = load_inline(
    name="thrust_rows",
    cpp_sources="void topk_rows(const at::Tensor& x, at::Tensor& keys, at::Tensor& idx, at::Tensor& v, at::Tensor& i);",
    cuda_sources=CUDA,
    functions=["topk_rows"],
)


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.batch, self.n, self.k = batch, n, k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x):
        keys = torch.empty_like(x)
        idx = torch.empty(self.n, dtype=torch.int64, device=x.device)
        v = torch.empty(self.batch, self.k, device=x.device)
        i = torch.empty(self.batch, self.k, dtype=torch.int64, device=x.device)
        ext.topk_rows(x, keys, idx, v, i)
        return v, i
