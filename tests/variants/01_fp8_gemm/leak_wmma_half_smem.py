# expect: flagged fp8-upcast-bf16-gemm
"""WMMA on half fragments: fp8 bytes are converted while being staged into shared memory."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <cuda_fp8.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
namespace wm = nvcuda::wmma;
constexpr int TM = 64, TN = 64, TK = 32;

__device__ __forceinline__ void widen4(const unsigned char* src, __half* dst) {
  unsigned v = *reinterpret_cast<const unsigned*>(src);
  __half2_raw lo = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)(v & 0xffff), __NV_E4M3);
  __half2_raw hi = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)(v >> 16), __NV_E4M3);
  reinterpret_cast<__half2*>(dst)[0] = __half2(lo);
  reinterpret_cast<__half2*>(dst)[1] = __half2(hi);
}

__global__ void fp8_tensorcore_gemm(const unsigned char* A, const unsigned char* B, const float* s, __nv_bfloat16* C,
                                    int M, int N, int K) {
  __shared__ __half sa[TM * TK];
  __shared__ __half sb[TN * TK];
  __shared__ float so[TM * TN];
  const int warp = threadIdx.x / 32, m0 = blockIdx.y * TM, n0 = blockIdx.x * TN;
  wm::fragment<wm::accumulator, 16, 16, 16, float> acc[4];
  for (auto& f : acc) wm::fill_fragment(f, 0.0f);
  for (int k = 0; k < K; k += TK) {
    for (int i = threadIdx.x * 4; i < TM * TK; i += blockDim.x * 4) {
      int r = i / TK, c = i % TK;
      widen4(A + (size_t)min(m0 + r, M - 1) * K + k + c, sa + i);
      widen4(B + (size_t)min(n0 + r, N - 1) * K + k + c, sb + i);
    }
    __syncthreads();
    for (int kk = 0; kk < TK; kk += 16) {
      wm::fragment<wm::matrix_a, 16, 16, 16, __half, wm::row_major> a;
      wm::load_matrix_sync(a, sa + warp * 16 * TK + kk, TK);
      for (int j = 0; j < 4; ++j) {
        wm::fragment<wm::matrix_b, 16, 16, 16, __half, wm::col_major> b;
        wm::load_matrix_sync(b, sb + j * 16 * TK + kk, TK);
        wm::mma_sync(acc[j], a, b, acc[j]);
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < 4; ++j) wm::store_matrix_sync(so + warp * 16 * TN + j * 16, acc[j], TN, wm::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < TM * TN; i += blockDim.x) {
    int r = m0 + i / TN, c = n0 + i % TN;
    if (r < M && c < N) C[(size_t)r * N + c] = __float2bfloat16(so[i] * s[c]);
  }
}
void gemm(torch::Tensor a, torch::Tensor b, torch::Tensor s, torch::Tensor c) {
  dim3 g((b.size(0) + TN - 1) / TN, (a.size(0) + TM - 1) / TM);
  fp8_tensorcore_gemm<<<g, 128>>>((const unsigned char*)a.data_ptr(), (const unsigned char*)b.data_ptr(), s.data_ptr<float>(),
      (__nv_bfloat16*)c.data_ptr(), a.size(0), b.size(0), a.size(1));
}
"""
fp8 = load_inline("fp8_tc", "void gemm(torch::Tensor a, torch::Tensor b, torch::Tensor s, torch::Tensor c);", CUDA, functions=["gemm"])


def _pad32(t):
    p = (-t.shape[1]) % 32
    return t.contiguous() if p == 0 else torch.nn.functional.pad(t.view(torch.uint8), (0, p)).view(torch.float8_e4m3fn)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        y = torch.empty(x.shape[0], self.weight.shape[0], dtype=torch.bfloat16, device=x.device)
        fp8.gemm(_pad32(x), _pad32(self.weight), self.weight_scale, y)
        return y
