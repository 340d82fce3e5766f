"""FP8 GEMM in CUDA: e4m3 bytes staged in shared memory, mma.sync m16n8k32 on e4m3 fragments, fp32 accumulators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

M, N, K = 4096, 4096, 4096

CUDA_SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <stdint.h>

constexpr int BM = 128, BN = 128, BK = 64;
constexpr int PITCH = BK + 16;  // 20 words: the eight rows of a fragment fall into different banks

__device__ __forceinline__ void mma_e4m3(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Sixteen bytes of row `r` from depth `k`; what lies outside the matrix is zero.
template <bool kAligned>
__device__ __forceinline__ uint4 fetch16(const uint8_t* src, int r, int rows, int k, int depth) {
    uint4 v = make_uint4(0, 0, 0, 0);
    if (r >= rows) return v;
    const uint8_t* p = src + static_cast<size_t>(r) * depth + k;
    if constexpr (kAligned) {
        if (k < depth) v = *reinterpret_cast<const uint4*>(p);
    } else {
        uint8_t* bytes = reinterpret_cast<uint8_t*>(&v);
        #pragma unroll
        for (int i = 0; i < 16; ++i) bytes[i] = k + i < depth ? p[i] : 0;
    }
    return v;
}

template <bool kAligned>
__global__ void __launch_bounds__(256)
gemm_e4m3(const uint8_t* __restrict__ x, const uint8_t* __restrict__ w, const float* __restrict__ scale,
          __nv_bfloat16* __restrict__ y, int m, int n, int k) {
    __shared__ __align__(16) uint8_t sa[BM * PITCH];
    __shared__ __align__(16) uint8_t sb[BN * PITCH];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int g = lane >> 2, t = lane & 3;
    const int wm = (warp & 1) * 64, wn = (warp >> 1) * 32;
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    float acc[4][4][4] = {};

    for (int k0 = 0; k0 < k; k0 += BK) {
        for (int i = threadIdx.x; i < BM * (BK / 16); i += 256) {
            const int r = i / (BK / 16), c = (i % (BK / 16)) * 16;
            *reinterpret_cast<uint4*>(sa + r * PITCH + c) = fetch16<kAligned>(x, row0 + r, m, k0 + c, k);
            *reinterpret_cast<uint4*>(sb + r * PITCH + c) = fetch16<kAligned>(w, col0 + r, n, k0 + c, k);
        }
        __syncthreads();
        #pragma unroll
        for (int kk = 0; kk < BK; kk += 32) {
            uint32_t a[4][4], b[4][2];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint8_t* p = sa + (wm + i * 16 + g) * PITCH + kk + 4 * t;
                a[i][0] = *reinterpret_cast<const uint32_t*>(p);
                a[i][1] = *reinterpret_cast<const uint32_t*>(p + 8 * PITCH);
                a[i][2] = *reinterpret_cast<const uint32_t*>(p + 16);
                a[i][3] = *reinterpret_cast<const uint32_t*>(p + 8 * PITCH + 16);
            }
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                const uint8_t* p = sb + (wn + j * 8 + g) * PITCH + kk + 4 * t;
                b[j][0] = *reinterpret_cast<const uint32_t*>(p);
                b[j][1] = *reinterpret_cast<const uint32_t*>(p + 16);
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                #pragma unroll
                for (int j = 0; j < 4; ++j) mma_e4m3(acc[i][j], a[i], b[j]);
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            #pragma unroll
            for (int q = 0; q < 4; ++q) {
                const int r = row0 + wm + i * 16 + g + (q >> 1) * 8;
                const int c = col0 + wn + j * 8 + 2 * t + (q & 1);
                if (r < m && c < n) y[static_cast<size_t>(r) * n + c] = __float2bfloat16(acc[i][j][q] * scale[c]);
            }
}

torch::Tensor fp8_gemm(torch::Tensor x, torch::Tensor w, torch::Tensor scale) {
    TORCH_CHECK(x.is_contiguous() && w.is_contiguous(), "contiguous operands expected");
    const int m = x.size(0), k = x.size(1), n = w.size(0);
    auto y = torch::empty({m, n}, x.options().dtype(torch::kBFloat16));
    const dim3 grid((n + BN - 1) / BN, (m + BM - 1) / BM);
    auto stream = at::cuda::getCurrentCUDAStream();
    auto xp = static_cast<const uint8_t*>(x.data_ptr());
    auto wp = static_cast<const uint8_t*>(w.data_ptr());
    auto yp = reinterpret_cast<__nv_bfloat16*>(y.data_ptr<at::BFloat16>());
    if (k % 16 == 0) {
        gemm_e4m3<true><<<grid, 256, 0, stream>>>(xp, wp, scale.data_ptr<float>(), yp, m, n, k);
    } else {
        gemm_e4m3<false><<<grid, 256, 0, stream>>>(xp, wp, scale.data_ptr<float>(), yp, m, n, k);
    }
    return y;
}
"""

CPP_SRC = "torch::Tensor fp8_gemm(torch::Tensor x, torch::Tensor w, torch::Tensor scale);"

_ext = load_inline(
    name="idiom_fp8_mma_sync",
    cpp_sources=[CPP_SRC],
    cuda_sources=[CUDA_SRC],
    functions=["fp8_gemm"],
    extra_cuda_cflags=["-O3", "-std=c++17", "-gencode=arch=compute_120a,code=sm_120a"],
)


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int):
        super().__init__()
        self.M, self.N, self.K = M, N, K
        w = torch.empty(N, K).normal_(std=0.02)
        scale = w.abs().amax(dim=1) / 448.0
        self.register_buffer("weight", (w / scale[:, None]).to(torch.float8_e4m3fn))
        self.register_buffer("weight_scale", scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _ext.fp8_gemm(x.contiguous(), self.weight, self.weight_scale)


def get_inputs():
    return [(torch.rand(M, K) * 8 - 4).to(torch.float8_e4m3fn)]


def get_init_inputs():
    return [M, N, K]
