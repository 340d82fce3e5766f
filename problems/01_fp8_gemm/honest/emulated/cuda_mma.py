"""FP8 GEMM in CUDA with `mma.sync` on e4m3 operands, as chips of compute capability 8.9 and 12 execute it.

Tiles come through a ring of stages in shared memory (cp.async); each warp multiplies 16 x 8 x 32 at a time, and the
column scale multiplies the fp32 accumulator. The rows of a tile are 16 bytes further apart in shared memory than they
are long, so that the eight rows that a warp reads at once lie in different banks.

On Hopper the same instruction exists in PTX alone: its compiler unpacks both operands to fp16 and multiplies those.

Where the depth is not a whole number of stages, both operands are copied into rows that are, with zeros behind.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <stdint.h>

constexpr int BK = 64;            // bytes of depth a stage
constexpr int PITCH = BK + 16;    // of a row in shared memory

// 16 bytes from global to shared memory; zeros where there is no such row.
__device__ __forceinline__ void copy16(uint8_t* to, const uint8_t* from, bool there) {
    const uint32_t target = uint32_t(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" :: "r"(target), "l"(from), "r"(there ? 16 : 0));
}

// d[16 x 8] += a[16 x 32] b[8 x 32]^T, e4m3 operands, fp32 accumulator.
__device__ __forceinline__ void product(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <int ROWS, int THREADS>
__device__ __forceinline__ void bring(uint8_t* tile, const uint8_t* from, int row0, int rows, int k, int step) {
    for (int i = threadIdx.x; i < ROWS * (BK / 16); i += THREADS) {
        const int row = i / (BK / 16), column = i % (BK / 16) * 16;
        const bool there = row0 + row < rows;
        copy16(tile + row * PITCH + column, from + size_t(there ? row0 + row : 0) * k + step * BK + column, there);
    }
}

// A block makes BM rows by BN columns of y; its warps stand WARPS_M by WARPS_N. k is a multiple of BK.
template <int BM, int BN, int WARPS_M, int WARPS_N, int STAGES>
__global__ void __launch_bounds__(32 * WARPS_M * WARPS_N)
gemm(const uint8_t* __restrict__ x, const uint8_t* __restrict__ weight, const float* __restrict__ scale,
     __nv_bfloat16* __restrict__ y, int m, int n, int k) {
    constexpr int THREADS = 32 * WARPS_M * WARPS_N, TM = BM / WARPS_M / 16, TN = BN / WARPS_N / 8;
    constexpr int A_BYTES = BM * PITCH, B_BYTES = BN * PITCH;
    extern __shared__ __align__(16) uint8_t tiles[];
    const int row0 = blockIdx.x * BM, column0 = blockIdx.y * BN, steps = k / BK;
    const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, lane = threadIdx.x % 4;
    const int warp_row = warp / WARPS_N * (BM / WARPS_M), warp_column = warp % WARPS_N * (BN / WARPS_N);

    auto fill = [&](int step) {
        if (step < steps) {
            uint8_t* stage = tiles + step % STAGES * (A_BYTES + B_BYTES);
            bring<BM, THREADS>(stage, x, row0, m, k, step);
            bring<BN, THREADS>(stage + A_BYTES, weight, column0, n, k, step);
        }
        asm volatile("cp.async.commit_group;\n");
    };
    for (int step = 0; step < STAGES - 1; ++step) fill(step);

    float d[TM][TN][4] = {};
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group %0;\n" :: "n"(STAGES - 2));
        __syncthreads();
        fill(step + STAGES - 1);
        const uint8_t* a_tile = tiles + step % STAGES * (A_BYTES + B_BYTES) + (warp_row + group) * PITCH + lane * 4;
        const uint8_t* b_tile =
            tiles + step % STAGES * (A_BYTES + B_BYTES) + A_BYTES + (warp_column + group) * PITCH + lane * 4;
        #pragma unroll
        for (int inner = 0; inner < BK; inner += 32) {
            uint32_t a[TM][4], b[TN][2];
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int part = 0; part < 4; ++part) {
                    const int at = (i * 16 + part % 2 * 8) * PITCH + inner + part / 2 * 16;
                    a[i][part] = *reinterpret_cast<const uint32_t*>(a_tile + at);
                }
            }
            #pragma unroll
            for (int j = 0; j < TN; ++j) {
                #pragma unroll
                for (int part = 0; part < 2; ++part) {
                    b[j][part] = *reinterpret_cast<const uint32_t*>(b_tile + j * 8 * PITCH + inner + part * 16);
                }
            }
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int j = 0; j < TN; ++j) product(d[i][j], a[i], b[j]);
            }
        }
    }

    #pragma unroll
    for (int j = 0; j < TN; ++j) {
        const int column = column0 + warp_column + j * 8 + lane * 2;
        #pragma unroll
        for (int e = 0; e < 2; ++e) {
            if (column + e >= n) continue;
            const float factor = scale[column + e];
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int row = row0 + warp_row + i * 16 + group + half * 8;
                    if (row < m) y[size_t(row) * n + column + e] = __float2bfloat16(d[i][j][half * 2 + e] * factor);
                }
            }
        }
    }
}

// padded[r] = source[r] followed by zeros; both in e4m3.
__global__ void pad_rows(const uint8_t* __restrict__ source, uint8_t* __restrict__ padded, int depth, int pitch) {
    const size_t row = blockIdx.x;
    for (int i = threadIdx.x; i < pitch; i += blockDim.x) {
        padded[row * pitch + i] = i < depth ? source[row * depth + i] : 0;
    }
}

template <int BM, int BN, int WARPS_M, int WARPS_N, int STAGES>
static void launch(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& scale, torch::Tensor& y) {
    const int m = x.size(0), n = weight.size(0), k = x.size(1), bytes = STAGES * (BM + BN) * PITCH;
    auto kernel = gemm<BM, BN, WARPS_M, WARPS_N, STAGES>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    const dim3 blocks((m + BM - 1) / BM, (n + BN - 1) / BN);
    kernel<<<blocks, 32 * WARPS_M * WARPS_N, bytes, at::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const uint8_t*>(x.data_ptr()), reinterpret_cast<const uint8_t*>(weight.data_ptr()),
        scale.data_ptr<float>(), reinterpret_cast<__nv_bfloat16*>(y.data_ptr()), m, n, k);
    TORCH_CHECK(cudaGetLastError() == cudaSuccess, "the launch failed");
}

void fp8_gemm(torch::Tensor x, torch::Tensor weight, torch::Tensor scale, torch::Tensor y) {
    if (x.size(0) <= 32) {
        launch<32, 64, 1, 4, 8>(x, weight, scale, y);
    } else {
        launch<128, 128, 2, 4, 4>(x, weight, scale, y);
    }
}

void pad(torch::Tensor source, torch::Tensor padded) {
    pad_rows<<<source.size(0), 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const uint8_t*>(source.data_ptr()), reinterpret_cast<uint8_t*>(padded.data_ptr()),
        source.size(1), padded.size(1));
}
"""

_DECLARATIONS = """
void fp8_gemm(torch::Tensor x, torch::Tensor weight, torch::Tensor scale, torch::Tensor y);
void pad(torch::Tensor source, torch::Tensor padded);
"""
STAGE = 64  # bytes of depth


def build():
    """The compiled extension, for the chip at hand; torch keeps it, so a second call is quick."""
    return load_inline(
        name="kbh_fp8_gemm_mma",
        cpp_sources=[_DECLARATIONS],
        cuda_sources=[SOURCE],
        functions=["fp8_gemm", "pad"],
        extra_cuda_cflags=["-O3", "-std=c++17"],
    )


class Model(nn.Module):
    """y[M,N] bf16 = (x[M,K] e4m3 @ weight[N,K]^T e4m3) * weight_scale[N]."""

    def __init__(self, M: int, N: int, K: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N, dtype=torch.float32))
        self._extension = build()

    def _whole(self, t: torch.Tensor) -> torch.Tensor:
        """`t` [rows, depth], or a copy whose depth is a whole number of stages, with zeros behind."""
        rows, depth = t.shape
        pitch = (depth + STAGE - 1) // STAGE * STAGE
        if pitch == depth:
            return t
        out = torch.empty((rows, pitch), dtype=t.dtype, device=t.device)
        self._extension.pad(t, out)
        return out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty((x.shape[0], self.weight.shape[0]), dtype=torch.bfloat16, device=x.device)
        self._extension.fp8_gemm(self._whole(x.contiguous()), self._whole(self.weight), self.weight_scale, y)
        return y
