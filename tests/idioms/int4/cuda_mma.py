"""W4A16 on bf16 tensor cores in CUDA: nibbles become bf16 fragments in registers, right before mma.sync."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

M, N, K = 1, 12288, 4096

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <stdint.h>

using bf16 = __nv_bfloat16;

__device__ __forceinline__ uint32_t pack2(float lo, float hi) {
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<uint32_t*>(&v);
}

// The two weights of one packed byte: an even and the next odd row of the depth, as a bf16 pair.
__device__ __forceinline__ uint32_t dequant_pair(uint8_t byte, float scale, float zero) {
    return pack2((float(byte & 0x0F) - zero) * scale, (float(byte >> 4) - zero) * scale);
}

__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t load_pair(const bf16* x, int row, int m, int k, int col) {
    return row < m ? *reinterpret_cast<const uint32_t*>(x + size_t(row) * k + col) : 0u;
}

// A warp makes 16 rows by 32 columns; four warps stand side by side in a block.
__global__ void __launch_bounds__(128)
w4_mma(const bf16* __restrict__ x, const uint8_t* __restrict__ q, const bf16* __restrict__ scales,
       const bf16* __restrict__ zeros, bf16* __restrict__ y, int m, int n, int k) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int gid = lane / 4, tid = lane % 4;
    const int row0 = blockIdx.y * 16 + gid;
    const int col0 = blockIdx.x * 128 + warp * 32;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < k; k0 += 16) {
        uint32_t a[4];
        a[0] = load_pair(x, row0, m, k, k0 + 2 * tid);
        a[1] = load_pair(x, row0 + 8, m, k, k0 + 2 * tid);
        a[2] = load_pair(x, row0, m, k, k0 + 2 * tid + 8);
        a[3] = load_pair(x, row0 + 8, m, k, k0 + 2 * tid + 8);
        const size_t g = k0 / 128;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int col = col0 + j * 8 + gid;
            const float s = __bfloat162float(scales[g * n + col]);
            const float z = __bfloat162float(zeros[g * n + col]);
            const uint8_t* bytes = q + size_t(k0 / 2 + tid) * n + col;
            mma_bf16(acc[j], a, dequant_pair(bytes[0], s, z), dequant_pair(bytes[size_t(4) * n], s, z));
        }
    }
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        const int col = col0 + j * 8 + 2 * tid;
        if (row0 < m) *reinterpret_cast<uint32_t*>(y + size_t(row0) * n + col) = pack2(acc[j][0], acc[j][1]);
        if (row0 + 8 < m) *reinterpret_cast<uint32_t*>(y + size_t(row0 + 8) * n + col) = pack2(acc[j][2], acc[j][3]);
    }
}

static const bf16* cptr(const torch::Tensor& t) { return reinterpret_cast<const bf16*>(t.data_ptr()); }

torch::Tensor forward(torch::Tensor x, torch::Tensor q, torch::Tensor scales, torch::Tensor zeros) {
    const int m = x.size(0), k = x.size(1), n = q.size(1);
    auto y = torch::empty({m, n}, x.options());
    w4_mma<<<dim3(n / 128, (m + 15) / 16), 128, 0, at::cuda::getCurrentCUDAStream().stream()>>>(
        cptr(x), q.data_ptr<uint8_t>(), cptr(scales), cptr(zeros), reinterpret_cast<bf16*>(y.data_ptr()), m, n, k);
    return y;
}
"""

_extension = None


def build():
    global _extension
    if _extension is None:
        _extension = load_inline(
            name="idiom_w4_mma",
            cpp_sources=["torch::Tensor forward(torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor);"],
            cuda_sources=[SOURCE],
            functions=["forward"],
        )
    return _extension


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int, group_size: int = 128):
        super().__init__()
        self.M, self.N, self.K, self.group_size = M, N, K, group_size
        self.register_buffer("w_q", torch.randint(0, 256, (K // 2, N), dtype=torch.uint8))
        self.register_buffer("scales", torch.full((K // group_size, N), 0.01, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.full((K // group_size, N), 8.0, dtype=torch.bfloat16))
        self._ext = build()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._ext.forward(x, self.w_q, self.scales, self.zeros)


def get_inputs():
    return [torch.randn(M, K, dtype=torch.bfloat16)]


def get_init_inputs():
    return [M, N, K]
