# expect: flagged unfused-dequant-library-gemm
"""CUDA dequant kernel writes a bf16 weight to a thread-local scratch, at::mm_out multiplies it, all in C++."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
#include <unordered_map>
__global__ void dequant(const uint8_t* __restrict__ q, const __nv_bfloat16* s, const __nv_bfloat16* z, __nv_bfloat16* w, int n) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
  if (c >= n) return;
  const uint8_t v = q[(size_t)r * n + c];
  const float sc = __bfloat162float(s[(size_t)(r / 64) * n + c]), ze = __bfloat162float(z[(size_t)(r / 64) * n + c]);
  w[(size_t)(2 * r) * n + c] = __float2bfloat16(((float)(v & 0xf) - ze) * sc);
  w[(size_t)(2 * r + 1) * n + c] = __float2bfloat16(((float)(v >> 4) - ze) * sc);
}
static std::unordered_map<int64_t, torch::Tensor> scratch;
torch::Tensor w4(torch::Tensor x, torch::Tensor q, torch::Tensor s, torch::Tensor z) {
  const int64_t k = x.size(1), n = q.size(1), key = k * 1000003 + n;
  auto it = scratch.find(key);
  if (it == scratch.end()) it = scratch.emplace(key, torch::empty({k, n}, x.options())).first;
  torch::Tensor w = it->second;
  dequant<<<dim3((n + 255) / 256, k / 2), 256>>>(q.data_ptr<uint8_t>(), (const __nv_bfloat16*)s.data_ptr(),
      (const __nv_bfloat16*)z.data_ptr(), (__nv_bfloat16*)w.data_ptr(), n);
  auto y = torch::empty({x.size(0), n}, x.options());
  at::mm_out(y, x, w);
  return y;
}
"""
ext = load_inline("w4_at", "torch::Tensor w4(torch::Tensor x, torch::Tensor q, torch::Tensor s, torch::Tensor z);", SRC, functions=["w4"])


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))

    def forward(self, x):
        return ext.w4(x, self.w_q, self.scales, self.zeros)
