# expect: kept
"""cuda::pipeline double buffering, prmt dequant to fp16 magic, ldmatrix and m16n8k16; C++ host caches the repacked weight by version."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
#include <cuda_pipeline.h>
#include <optional>
namespace w4 {
using bf16 = __nv_bfloat16;
struct Args { const bf16* x; const unsigned* q; const bf16* s; const bf16* z; bf16* y; int M, N, K; };

__device__ __forceinline__ unsigned pack(float a, float b) {
  __nv_bfloat162 v = __floats2bfloat162_rn(a, b);
  return *reinterpret_cast<unsigned*>(&v);
}
__device__ __forceinline__ void unpack8(unsigned w, float s, float z, unsigned (&o)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    unsigned lo = __byte_perm(w & 0x0f0f0f0fu, 0, 0x4440 + i);
    unsigned hi = __byte_perm((w >> 4) & 0x0f0f0f0fu, 0, 0x4440 + i);
    o[i] = pack(((float)lo - z) * s, ((float)hi - z) * s);
  }
}
template <int MT>
__global__ void __launch_bounds__(128) kern(Args p) {
  __shared__ __align__(16) bf16 xs[2][MT * 16][72];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int n = (blockIdx.x * 4 + warp) * 8 + g, m0 = blockIdx.y * MT * 16;
  float acc[MT][4] = {};
  auto fetch = [&](int buf, int k) {
    for (int i = threadIdx.x; i < MT * 16 * 8; i += 128) {
      const int r = min(m0 + i / 8, p.M - 1);
      __pipeline_memcpy_async(&xs[buf][i / 8][(i % 8) * 8], p.x + (size_t)r * p.K + k + (i % 8) * 8, 16);
    }
    __pipeline_commit();
  };
  fetch(0, 0);
  for (int k = 0, buf = 0; k < p.K; k += 64, buf ^= 1) {
    if (k + 64 < p.K) fetch(buf ^ 1, k + 64);
    __pipeline_wait_prior(k + 64 < p.K ? 1 : 0);
    __syncthreads();
    const float s = __bfloat162float(p.s[(size_t)(k / 128) * p.N + n]), z = __bfloat162float(p.z[(size_t)(k / 128) * p.N + n]);
    for (int kk = 0; kk < 64; kk += 32) {
      unsigned b[4];
      unpack8(p.q[((size_t)(k + kk) / 32 * p.N + n) * 4 + t], s, z, b);
      for (int h = 0; h < 2; ++h)
        for (int m = 0; m < MT; ++m) {
          unsigned a[4];
          const unsigned addr = (unsigned)__cvta_generic_to_shared(&xs[buf][m * 16 + lane % 16][kk + h * 16 + (lane / 16) * 8]);
          asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(addr));
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                       : "+f"(acc[m][0]), "+f"(acc[m][1]), "+f"(acc[m][2]), "+f"(acc[m][3])
                       : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[h * 2]), "r"(b[h * 2 + 1]));
        }
    }
    __syncthreads();
  }
  for (int m = 0; m < MT; ++m)
    for (int i = 0; i < 4; ++i) {
      const int r = m0 + m * 16 + g + (i / 2) * 8, c = (blockIdx.x * 4 + warp) * 8 + t * 2 + i % 2;
      if (r < p.M) p.y[(size_t)r * p.N + c] = __float2bfloat16(acc[m][i]);
    }
}
class Layer {
 public:
  torch::Tensor forward(torch::Tensor x, torch::Tensor q, torch::Tensor s, torch::Tensor z) {
    const int M = x.size(0), N = s.size(1), K = x.size(1);
    auto y = torch::empty({M, N}, x.options());
    Args p{ptr(x), reinterpret_cast<const unsigned*>(q.data_ptr()), ptr(s), ptr(z), reinterpret_cast<bf16*>(y.data_ptr()), M, N, K};
    const dim3 grid(N / 32, M <= 16 ? 1 : (M + 31) / 32);
    if (M <= 16) kern<1><<<grid, 128>>>(p);
    else kern<2><<<grid, 128>>>(p);
    return y;
  }
 private:
  static const bf16* ptr(const torch::Tensor& t) { return reinterpret_cast<const bf16*>(t.data_ptr()); }
};
}  // namespace w4
torch::Tensor w4_forward(torch::Tensor x, torch::Tensor q, torch::Tensor s, torch::Tensor z) {
  static w4::Layer layer;
  return layer.forward(x, q, s, z);
}
"""
ext = load_inline("w4pipe", "torch::Tensor w4_forward(torch::Tensor x, torch::Tensor q, torch::Tensor s, torch::Tensor z);", SRC,
                  functions=["w4_forward"])


def repack(q):
    k2, n = q.shape
    return q.view(k2 // 16, 4, 4, n).permute(0, 3, 1, 2).contiguous()


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.cache = {}

    def forward(self, x):
        stamp = (id(self.w_q), self.w_q._version)
        if stamp not in self.cache:
            self.cache = {stamp: repack(self.w_q)}
        return ext.w4_forward(x, self.cache[stamp], self.scales, self.zeros)
