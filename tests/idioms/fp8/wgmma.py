"""FP8 GEMM on Hopper: two warpgroups issue wgmma on operands that lie in shared memory as plain 8 x 16-byte core matrices.

The staging and the opcode are templates over the operand type; only the e4m3 instance is launched.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

M, N, K = 4096, 4096, 4096

CUDA_SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <stdint.h>
#include <type_traits>

using Operand = __nv_fp8_e4m3;

constexpr int BM = 128, BN = 64, BK = 64;

#define ACC4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA(OPCODE, TAIL)                                                                  \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                  \
                 "wgmma.mma_async.sync.aligned." OPCODE " "                                  \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "   \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "    \
                 "%30, %31}, %32, %33, p, 1, 1" TAIL ";\n}\n"                                \
                 : ACC4(0), ACC4(4), ACC4(8), ACC4(12), ACC4(16), ACC4(20), ACC4(24), ACC4(28) \
                 : "l"(a), "l"(b))

template <typename T>
__device__ __forceinline__ void product(float (&d)[32], uint64_t a, uint64_t b) {
    if constexpr (std::is_same_v<T, __nv_fp8_e4m3>) {
        WGMMA("m64n64k32.f32.e4m3.e4m3", "");
    } else {
        WGMMA("m64n64k16.f32.bf16.bf16", ", 0, 0");
    }
}

template <typename T>
__device__ __forceinline__ T convert(__nv_fp8_e4m3 v) {
    if constexpr (std::is_same_v<T, __nv_fp8_e4m3>) {
        return v;
    } else {
        return __float2bfloat16(static_cast<float>(v));
    }
}

// Byte offset of depth byte `kb` of row `r` in a tile of core matrices, `width` bytes of depth a row.
__device__ __forceinline__ int core_offset(int r, int kb, int width) {
    return ((r >> 3) * (width >> 4) + (kb >> 4)) * 128 + (r & 7) * 16 + (kb & 15);
}

template <typename T, int kRows>
__device__ __forceinline__ void stage(uint8_t* tile, const __nv_fp8_e4m3* src, int row0, int rows, int k0, int depth) {
    for (int i = threadIdx.x; i < kRows * BK; i += blockDim.x) {
        const int r = i / BK, k = i % BK;
        __nv_fp8_e4m3 v;
        v.__x = 0;
        if (row0 + r < rows && k0 + k < depth) v = src[static_cast<size_t>(row0 + r) * depth + k0 + k];
        *reinterpret_cast<T*>(tile + core_offset(r, k * sizeof(T), BK * sizeof(T))) = convert<T>(v);
    }
}

__device__ __forceinline__ uint64_t describe(const void* p, int width) {
    const uint64_t address = static_cast<uint64_t>(__cvta_generic_to_shared(p));
    const uint64_t leading = 128, stride = static_cast<uint64_t>(width) * 8;
    return ((address & 0x3FFFF) >> 4) | ((leading >> 4) << 16) | ((stride >> 4) << 32);
}

template <typename T>
__global__ void __launch_bounds__(256)
gemm_wgmma(const __nv_fp8_e4m3* __restrict__ x, const __nv_fp8_e4m3* __restrict__ w, const float* __restrict__ scale,
           __nv_bfloat16* __restrict__ y, int m, int n, int k) {
    constexpr int kWidth = BK * sizeof(T);
    __shared__ __align__(128) uint8_t sa[BM * kWidth];
    __shared__ __align__(128) uint8_t sb[BN * kWidth];
    const int group = threadIdx.x / 128;
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    float acc[32] = {};
    for (int k0 = 0; k0 < k; k0 += BK) {
        stage<T, BM>(sa, x, row0, m, k0, k);
        stage<T, BN>(sb, w, col0, n, k0, k);
        asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
        __syncthreads();
        asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
        #pragma unroll
        for (int kb = 0; kb < kWidth; kb += 32) {
            product<T>(acc, describe(sa + group * 64 * kWidth + kb * 8, kWidth), describe(sb + kb * 8, kWidth));
        }
        asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
        __syncthreads();
    }
    const int lane = threadIdx.x % 32, warp = (threadIdx.x % 128) / 32;
    const int row = row0 + group * 64 + warp * 16 + lane / 4;
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        const int r = row + ((i >> 1) & 1) * 8;
        const int c = col0 + (i >> 2) * 8 + (lane % 4) * 2 + (i & 1);
        if (r < m && c < n) y[static_cast<size_t>(r) * n + c] = __float2bfloat16(acc[i] * scale[c]);
    }
}

void gemm(torch::Tensor x, torch::Tensor w, torch::Tensor scale, torch::Tensor y) {
    const int m = x.size(0), k = x.size(1), n = w.size(0);
    gemm_wgmma<Operand><<<dim3((n + BN - 1) / BN, (m + BM - 1) / BM), 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const __nv_fp8_e4m3*>(x.data_ptr()), reinterpret_cast<const __nv_fp8_e4m3*>(w.data_ptr()),
        scale.data_ptr<float>(), reinterpret_cast<__nv_bfloat16*>(y.data_ptr()), m, n, k);
}
"""


def build():
    return load_inline(
        name="idiom_fp8_wgmma",
        cpp_sources="void gemm(torch::Tensor x, torch::Tensor w, torch::Tensor scale, torch::Tensor y);",
        cuda_sources=CUDA_SRC,
        functions=["gemm"],
        extra_cuda_cflags=["-O3", "-std=c++17", "-gencode", "arch=compute_90a,code=sm_90a"],
    )


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int):
        super().__init__()
        self.M, self.N, self.K = M, N, K
        w = torch.randn(N, K) * 0.02
        scale = w.abs().amax(dim=1) / 448.0
        self.register_buffer("weight", (w / scale[:, None]).to(torch.float8_e4m3fn))
        self.register_buffer("weight_scale", scale)
        self._gemm = build().gemm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty((x.shape[0], self.N), dtype=torch.bfloat16, device=x.device)
        self._gemm(x, self.weight, self.weight_scale, y)
        return y


def get_inputs():
    return [(torch.rand(M, K) * 8 - 4).to(torch.float8_e4m3fn)]


def get_init_inputs():
    return [M, N, K]
