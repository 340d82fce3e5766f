"""FP8 GEMM whose CUDA text is put together in Python: one kernel and one wrapper a variant, PTX behind macros."""

import textwrap

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

M, N, K = 4096, 4096, 4096

WIDEN = False
VARIANTS = {"even": 1, "ragged": 0}

HEAD = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <stdint.h>

#define MMA(SHAPE, TYPE, d, a, b)                                              \\
    asm volatile("mma.sync.aligned." SHAPE ".row.col.f32." TYPE "." TYPE ".f32 " \\
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"       \\
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])              \\
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define HALVES(out, in, part) \\
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(out) : "h"((uint16_t)((in) >> (16 * (part)))))
"""

DIRECT_STEP = ['MMA("m16n8k32", "e4m3", acc[j], a, b);']
WIDE_STEP = [
    "for (int part = 0; part < 2; ++part) {",
    "    uint32_t ha[4], hb[2];",
    *[f"    HALVES(ha[{i}], a[{i}], part);" for i in range(4)],
    *[f"    HALVES(hb[{i}], b[{i}], part);" for i in range(2)],
    '    MMA("m16n8k16", "f16", acc[j], ha, hb);',
    "}",
]

KERNEL = """
__device__ __forceinline__ uint32_t word_@NAME@(const uint8_t* p, int row, int rows, int col, int depth) {
    if (row >= rows) return 0u;
    p += (size_t)row * depth + col;
    if (@WHOLE@) return col < depth ? *(const uint32_t*)p : 0u;
    uint32_t v = 0u;
    for (int i = 0; i < 4; ++i) v |= (col + i < depth ? (uint32_t)p[i] : 0u) << (8 * i);
    return v;
}

__global__ void __launch_bounds__(@THREADS@)
gemm_kernel_@NAME@(const uint8_t* x, const uint8_t* w, const float* scale, __nv_bfloat16* y, int m, int n, int k) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int r = blockIdx.y * 16 + lane / 4, c0 = (blockIdx.x * (@THREADS@ / 32) + warp) * 32, q = (lane % 4) * 4;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < k; k0 += 32) {
        uint32_t a[4] = {word_@NAME@(x, r, m, k0 + q, k), word_@NAME@(x, r + 8, m, k0 + q, k),
                         word_@NAME@(x, r, m, k0 + q + 16, k), word_@NAME@(x, r + 8, m, k0 + q + 16, k)};
        for (int j = 0; j < 4; ++j) {
            const int col = c0 + j * 8 + lane / 4;
            uint32_t b[2] = {word_@NAME@(w, col, n, k0 + q, k), word_@NAME@(w, col, n, k0 + q + 16, k)};
@STEP@
        }
    }
    for (int j = 0; j < 4; ++j)
        for (int i = 0; i < 4; ++i) {
            const int row = r + (i / 2) * 8, col = c0 + j * 8 + (lane % 4) * 2 + i % 2;
            if (row < m && col < n) y[(size_t)row * n + col] = __float2bfloat16(acc[j][i] * scale[col]);
        }
}
"""


def signature(name: str) -> str:
    return f"torch::Tensor gemm_{name}(torch::Tensor x, torch::Tensor w, torch::Tensor scale)"


def kernel(name: str, whole: int, threads: int = 128) -> str:
    step = textwrap.indent("\n".join(WIDE_STEP if WIDEN else DIRECT_STEP), " " * 12)
    text = KERNEL
    for key, value in {"NAME": name, "WHOLE": whole, "THREADS": threads, "STEP": step}.items():
        text = text.replace(f"@{key}@", str(value))
    return text


def wrapper(name: str, threads: int = 128) -> str:
    return f"""
{signature(name)} {{
    const int m = x.size(0), k = x.size(1), n = w.size(0);
    auto y = torch::empty({{m, n}}, x.options().dtype(torch::kBFloat16));
    gemm_kernel_{name}<<<dim3((n + {threads} - 1) / {threads}, (m + 15) / 16), {threads}, 0,
                         at::cuda::getCurrentCUDAStream()>>>(
        (const uint8_t*)x.data_ptr(), (const uint8_t*)w.data_ptr(), scale.data_ptr<float>(),
        (__nv_bfloat16*)y.data_ptr(), m, n, k);
    return y;
}}
"""


def build():
    parts = [HEAD]
    for name, whole in VARIANTS.items():
        parts += [kernel(name, whole), wrapper(name)]
    return load_inline(
        name="idiom_fp8_generated",
        cpp_sources=["\n".join(f"{signature(name)};" for name in VARIANTS)],
        cuda_sources=["".join(parts)],
        functions=[f"gemm_{name}" for name in VARIANTS],
        extra_cuda_cflags=["-O3", "-gencode=arch=compute_120a,code=sm_120a"],
    )


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int):
        super().__init__()
        self.M, self.N, self.K = M, N, K
        w = torch.randn(N, K) * 0.02
        scale = w.abs().amax(dim=1) / 448.0
        self.register_buffer("weight", (w / scale[:, None]).to(torch.float8_e4m3fn))
        self.register_buffer("weight_scale", scale)
        extension = build()
        self._run = getattr(extension, "gemm_" + ("even" if K % 4 == 0 else "ragged"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._run(x, self.weight, self.weight_scale)


def get_inputs():
    return [(torch.rand(M, K) * 8 - 4).to(torch.float8_e4m3fn)]


def get_init_inputs():
    return [M, N, K]
