# expect: kept
"""GEMV/GEMM through macros: a 16-entry table of (q - z) * s per group in shared memory, templates picked by a switch."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
#define HOST_PTR(t, T) reinterpret_cast<T*>((t).data_ptr())
#define FOR_ROWS(M_) for (int r = 0; r < (M_); ++r)
#define LAUNCH(R)                                                                                        \
  case R:                                                                                                \
    lut_kernel<R><<<dim3(N / 64, (M + R - 1) / R), 64>>>(HOST_PTR(x, const __nv_bfloat16),                \
        HOST_PTR(q, const unsigned char), HOST_PTR(s, const __nv_bfloat16), HOST_PTR(z, const __nv_bfloat16), \
        HOST_PTR(y, __nv_bfloat16), M, N, K);                                                            \
    break;

template <int ROWS>
__global__ void lut_kernel(const __nv_bfloat16* x, const unsigned char* q, const __nv_bfloat16* s, const __nv_bfloat16* z,
                           __nv_bfloat16* y, int M, int N, int K) {
  __shared__ float table[16][64];
  __shared__ float xs[ROWS][128];
  const int c = threadIdx.x, n = blockIdx.x * 64 + c, m0 = blockIdx.y * ROWS;
  float acc[ROWS];
  FOR_ROWS(ROWS) acc[r] = 0.f;
  for (int g = 0; g < K / 128; ++g) {
    const float sc = __bfloat162float(s[(size_t)g * N + n]), ze = __bfloat162float(z[(size_t)g * N + n]);
    for (int v = 0; v < 16; ++v) table[v][c] = ((float)v - ze) * sc;
    FOR_ROWS(ROWS)
      for (int k = c; k < 128; k += 64) xs[r][k] = m0 + r < M ? __bfloat162float(x[(size_t)(m0 + r) * K + g * 128 + k]) : 0.f;
    __syncthreads();
    for (int i = 0; i < 64; ++i) {
      const unsigned char b = q[(size_t)(g * 64 + i) * N + n];
      const float lo = table[b & 0x0f][c], hi = table[b >> 4][c];
      FOR_ROWS(ROWS) acc[r] = fmaf(xs[r][2 * i], lo, fmaf(xs[r][2 * i + 1], hi, acc[r]));
    }
    __syncthreads();
  }
  FOR_ROWS(ROWS) if (m0 + r < M) y[(size_t)(m0 + r) * N + n] = __float2bfloat16(acc[r]);
}
void lut_gemm(torch::Tensor x, torch::Tensor q, torch::Tensor s, torch::Tensor z, torch::Tensor y) {
  const int M = x.size(0), K = x.size(1), N = q.size(1);
  const int rows = M == 1 ? 1 : M <= 16 ? 8 : 16;
  switch (rows) { LAUNCH(1) LAUNCH(8) LAUNCH(16) default: TORCH_CHECK(false, "rows"); }
}
"""
ext = load_inline("lut4", ["#include <torch/extension.h>\nvoid lut_gemm(torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor);"],
                  [SRC], functions=["lut_gemm"])


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))

    def forward(self, x):
        y = torch.empty((x.size(0), self.w_q.size(1)), dtype=x.dtype, device=x.device)
        ext.lut_gemm(x, self.w_q, self.scales, self.zeros, y)
        return y
