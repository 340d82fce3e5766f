# expect: kept
"""CuPy RawModule with templated name expressions; DLPack hands over the tensors."""
import cupy
import torch
import torch.nn as nn

code = r"""
#include <cuda_bf16.h>
template <int COLS>
__global__ void w4_gemv(const __nv_bfloat16* x, const unsigned int* wq, const __nv_bfloat16* s, const __nv_bfloat16* z,
                        __nv_bfloat16* y, int M, int N, int K) {
  __shared__ float part[8][COLS];
  const int n = blockIdx.x * 128 + threadIdx.x * COLS, m = blockIdx.z;
  float acc[COLS] = {0};
  for (int g = threadIdx.y; g < K / 128; g += 8) {
    float dot[COLS] = {0}, sum = 0;
    for (int r = 0; r < 64; ++r) {
      const unsigned v = wq[((size_t)(g * 64 + r) * N + n) / 4];
      const __nv_bfloat162 xx = *reinterpret_cast<const __nv_bfloat162*>(x + (size_t)m * K + g * 128 + 2 * r);
      const float2 f = __bfloat1622float2(xx);
      sum += f.x + f.y;
#pragma unroll
      for (int c = 0; c < COLS; ++c) {
        const unsigned b = __byte_perm(v, 0, 0x4440 | c);
        dot[c] = fmaf(f.x, (float)(b & 15u), fmaf(f.y, (float)(b >> 4), dot[c]));
      }
    }
    for (int c = 0; c < COLS; ++c)
      acc[c] += __bfloat162float(s[(size_t)g * N + n + c]) * (dot[c] - __bfloat162float(z[(size_t)g * N + n + c]) * sum);
  }
  __shared__ float all[8][32][COLS];
  for (int c = 0; c < COLS; ++c) all[threadIdx.y][threadIdx.x][c] = acc[c];
  __syncthreads();
  if (threadIdx.y == 0)
    for (int c = 0; c < COLS; ++c) {
      float t = 0;
      for (int w = 0; w < 8; ++w) t += all[w][threadIdx.x][c];
      y[(size_t)m * N + n + c] = __float2bfloat16(t);
    }
}
"""
_module = cupy.RawModule(code=code, options=("--std=c++17",), name_expressions=("w4_gemv<4>",))
_kernel = _module.get_function("w4_gemv<4>")


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))

    def forward(self, x):
        m, k = x.shape
        n = self.w_q.shape[1]
        y = torch.empty(m, n, dtype=torch.bfloat16, device=x.device)
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            _kernel((n // 128, 1, m), (32, 8), (x.data_ptr(), self.w_q.data_ptr(), self.scales.data_ptr(), self.zeros.data_ptr(),
                                                y.data_ptr(), m, n, k))
        return y
