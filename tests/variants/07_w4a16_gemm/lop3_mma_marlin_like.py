# expect: kept
"""Marlin-flavoured W4A16: weights shuffled once per version into mma order, lop3 dequant, split-K with a semaphore."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

_CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <int lut>
__device__ __forceinline__ int lop3(int a, int b, int c) {
  int r;
  asm volatile("lop3.b32 %0, %1, %2, %3, %4;\n" : "=r"(r) : "r"(a), "r"(b), "r"(c), "n"(lut));
  return r;
}

struct FragB { __nv_bfloat162 v[2]; };

// 0x4300 | q is 128 + q as bf16
__device__ __forceinline__ FragB dequant(int q, __nv_bfloat162 scale, __nv_bfloat162 zero) {
  constexpr int MASK = 0x000f000f;
  constexpr int EX = 0x43004300;
  int lo = lop3<(0xf0 & 0xcc) | 0xaa>(q, MASK, EX);
  int hi = lop3<(0xf0 & 0xcc) | 0xaa>(q >> 4, MASK, EX);
  const __nv_bfloat162 bias = __floats2bfloat162_rn(128.f, 128.f);
  FragB f;
  f.v[0] = __hmul2(__hsub2(__hsub2(*reinterpret_cast<__nv_bfloat162*>(&lo), bias), zero), scale);
  f.v[1] = __hmul2(__hsub2(__hsub2(*reinterpret_cast<__nv_bfloat162*>(&hi), bias), zero), scale);
  return f;
}

__device__ __forceinline__ void mma(float* c, const uint32_t* a, const FragB& b) {
  const uint32_t* bb = reinterpret_cast<const uint32_t*>(&b);
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(bb[0]), "r"(bb[1]));
}

__device__ inline void barrier_acquire(int* lock, int count) {
  if (threadIdx.x == 0) {
    int state = -1;
    do asm volatile("ld.global.acquire.gpu.b32 %0, [%1];\n" : "=r"(state) : "l"(lock));
    while (state != count);
  }
  __syncthreads();
}
__device__ inline void barrier_release(int* lock, bool reset) {
  __syncthreads();
  if (threadIdx.x == 0) {
    if (reset) { lock[0] = 0; return; }
    int val = 1;
    asm volatile("fence.acq_rel.gpu;\n");
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;\n" : : "l"(lock), "r"(val));
  }
}

template <int MT, int SPLIT>
__global__ void __launch_bounds__(128)
w4_kernel(const __nv_bfloat16* __restrict__ X, const int4* __restrict__ W, const __nv_bfloat16* __restrict__ S,
          const __nv_bfloat16* __restrict__ Z, float* __restrict__ part, __nv_bfloat16* __restrict__ Y, int* locks,
          int M, int N, int K) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int n0 = blockIdx.x * 64 + warp * 16, split = blockIdx.z, m0 = blockIdx.y * MT * 16;
  float acc[MT][2][4] = {};
  const int k_lo = split * (K / SPLIT), k_hi = k_lo + K / SPLIT;
  for (int k = k_lo; k < k_hi; k += 64) {
    const int4 q4 = W[((size_t)(k / 64) * (N / 16) + n0 / 16) * 32 + lane];
    const int* q = reinterpret_cast<const int*>(&q4);
    const int g = k / 128;
    const int c = n0 + lane / 4;
    __nv_bfloat162 s0 = __bfloat162bfloat162(S[(size_t)g * N + c]), s1 = __bfloat162bfloat162(S[(size_t)g * N + c + 8]);
    __nv_bfloat162 z0 = __bfloat162bfloat162(Z[(size_t)g * N + c]), z1 = __bfloat162bfloat162(Z[(size_t)g * N + c + 8]);
    #pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
      FragB b0 = dequant(q[kk], s0, z0);
      FragB b1 = dequant(q[kk] >> 8, s1, z1);
      #pragma unroll
      for (int mt = 0; mt < MT; ++mt) {
        uint32_t a[4];
        const int r = m0 + mt * 16 + lane / 4, kc = k + kk * 16 + (lane % 4) * 2;
        a[0] = r < M ? *reinterpret_cast<const uint32_t*>(X + (size_t)r * K + kc) : 0u;
        a[1] = r + 8 < M ? *reinterpret_cast<const uint32_t*>(X + (size_t)(r + 8) * K + kc) : 0u;
        a[2] = r < M ? *reinterpret_cast<const uint32_t*>(X + (size_t)r * K + kc + 8) : 0u;
        a[3] = r + 8 < M ? *reinterpret_cast<const uint32_t*>(X + (size_t)(r + 8) * K + kc + 8) : 0u;
        mma(acc[mt][0], a, b0);
        mma(acc[mt][1], a, b1);
      }
    }
  }
  int* lock = locks + blockIdx.y * gridDim.x + blockIdx.x;
  if (SPLIT > 1) barrier_acquire(lock, split);
  #pragma unroll
  for (int mt = 0; mt < MT; ++mt)
    #pragma unroll
    for (int h = 0; h < 2; ++h)
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = m0 + mt * 16 + lane / 4 + (i / 2) * 8, c = n0 + h * 8 + (lane % 4) * 2 + i % 2;
        if (r >= M || c >= N) continue;
        float v = acc[mt][h][i];
        if (SPLIT > 1 && split > 0) v += part[(size_t)r * N + c];
        if (split == SPLIT - 1) Y[(size_t)r * N + c] = __float2bfloat16(v);
        else part[(size_t)r * N + c] = v;
      }
  if (SPLIT > 1) barrier_release(lock, split == SPLIT - 1);
}

void w4_gemm(const torch::Tensor& x, const torch::Tensor& w, const torch::Tensor& s, const torch::Tensor& z,
             torch::Tensor& part, torch::Tensor& locks, torch::Tensor& y) {
  const int M = x.size(0), K = x.size(1), N = y.size(1);
  auto stream = at::cuda::getCurrentCUDAStream().stream();
#define GO(MT, SP)                                                                                   \
  w4_kernel<MT, SP><<<dim3(N / 64, (M + MT * 16 - 1) / (MT * 16), SP), 128, 0, stream>>>(             \
      reinterpret_cast<const __nv_bfloat16*>(x.data_ptr<at::BFloat16>()),                            \
      reinterpret_cast<const int4*>(w.data_ptr<int32_t>()),                                          \
      reinterpret_cast<const __nv_bfloat16*>(s.data_ptr<at::BFloat16>()),                            \
      reinterpret_cast<const __nv_bfloat16*>(z.data_ptr<at::BFloat16>()), part.data_ptr<float>(),    \
      reinterpret_cast<__nv_bfloat16*>(y.data_ptr<at::BFloat16>()), locks.data_ptr<int>(), M, N, K)
  if (M <= 16) GO(1, 8);
  else if (M <= 32) GO(2, 4);
  else GO(4, 1);
}
"""

ext = load_inline("w4_marlinish", cpp_sources=(
    "void w4_gemm(const torch::Tensor& x, const torch::Tensor& w, const torch::Tensor& s, const torch::Tensor& z, "
    "torch::Tensor& part, torch::Tensor& locks, torch::Tensor& y);"), cuda_sources=_CUDA, functions=["w4_gemm"],
    extra_cuda_cflags=["-O3", "--expt-relaxed-constexpr"])


def _shuffle(w_q: torch.Tensor) -> torch.Tensor:
    """uint8 (K/2, N) -> int32 in the order in which lanes need nibbles."""
    kh, n = w_q.shape
    lo, hi = w_q & 0xF, w_q >> 4
    q = torch.stack((lo, hi), dim=1).reshape(kh * 2, n).to(torch.int32)
    q = q.view(kh // 32, 4, 2, 4, 2, n // 16, 2, 8)
    q = q.permute(0, 5, 7, 3, 1, 6, 2, 4).reshape(kh // 32, n // 16, 32, 4, 8)
    out = torch.zeros(q.shape[:-1], dtype=torch.int32, device=w_q.device)
    for i, pos in enumerate((0, 4, 1, 5, 2, 6, 3, 7)):
        out |= q[..., i] << (4 * pos)
    return out.contiguous()


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.M, self.N, self.K, self.group_size = M, N, K, group_size
        self.register_buffer("w_q", torch.zeros((K // 2, N), dtype=torch.uint8))
        self.register_buffer("scales", torch.ones((K // group_size, N), dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros((K // group_size, N), dtype=torch.bfloat16))
        self._packed = None
        self._tag = None
        self._scratch = {}

    def _weights(self):
        tag = (self.w_q._version, self.w_q.data_ptr())
        if self._tag != tag:
            self._packed, self._tag = _shuffle(self.w_q), tag
        return self._packed

    def forward(self, x):
        m = x.shape[0]
        if m not in self._scratch:
            self._scratch[m] = (torch.empty(m, self.N, device=x.device, dtype=torch.float32),
                                torch.zeros(self.N, device=x.device, dtype=torch.int32))
        part, locks = self._scratch[m]
        y = torch.empty(m, self.N, device=x.device, dtype=torch.bfloat16)
        ext.w4_gemm(x.contiguous(), self._weights(), self.scales, self.zeros, part, locks, y)
        return y
