"""CUDA softmax: each thread keeps a Kahan pair over a strided share of the row; the pairs merge in compensated trees."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

batch, vocab = 32, 4096

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <float.h>

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;

__device__ __forceinline__ void accumulate(float value, float& sum, float& comp) {
    float y = value - comp;
    float t = sum + y;
    comp = (t - sum) - y;
    sum = t;
}

__device__ __forceinline__ void merge_warp(float& sum, float& comp) {
    #pragma unroll
    for (int step = 16; step > 0; step >>= 1) {
        float other_sum = __shfl_down_sync(0xffffffffu, sum, step);
        float other_comp = __shfl_down_sync(0xffffffffu, comp, step);
        accumulate(other_sum, sum, comp);
        accumulate(-other_comp, sum, comp);
    }
}

__device__ float block_max(float v, float* shared) {
    for (int step = 16; step > 0; step >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = v;
    __syncthreads();
    v = shared[0];
    for (int w = 1; w < kWarps; ++w) v = fmaxf(v, shared[w]);
    __syncthreads();
    return v;
}

__global__ void __launch_bounds__(kThreads) softmax_kernel(const float* __restrict__ x, float* __restrict__ y, int n) {
    __shared__ float sums[kWarps];
    __shared__ float comps[kWarps];
    const float* in = x + static_cast<size_t>(blockIdx.x) * n;
    float* out = y + static_cast<size_t>(blockIdx.x) * n;

    float peak = -FLT_MAX;
    for (int i = threadIdx.x; i < n; i += kThreads) peak = fmaxf(peak, in[i]);
    peak = block_max(peak, sums);

    float sum = 0.0f, comp = 0.0f;
    for (int i = threadIdx.x; i < n; i += kThreads) accumulate(expf(in[i] - peak), sum, comp);
    merge_warp(sum, comp);
    if ((threadIdx.x & 31) == 0) {
        sums[threadIdx.x >> 5] = sum;
        comps[threadIdx.x >> 5] = comp;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < kWarps ? sums[threadIdx.x] : 0.0f;
        comp = threadIdx.x < kWarps ? comps[threadIdx.x] : 0.0f;
        merge_warp(sum, comp);
        if (threadIdx.x == 0) sums[0] = sum;
    }
    __syncthreads();
    float inverse = 1.0f / sums[0];
    for (int i = threadIdx.x; i < n; i += kThreads) out[i] = expf(in[i] - peak) * inverse;
}

torch::Tensor compensated_softmax(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32, "fp32 CUDA tensor expected");
    auto y = torch::empty_like(x);
    int rows = static_cast<int>(x.size(0));
    int n = static_cast<int>(x.size(1));
    softmax_kernel<<<rows, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""

CPP = "torch::Tensor compensated_softmax(torch::Tensor x);"

_module = None


def extension():
    global _module
    if _module is None:
        _module = load_inline(
            name="idiom_cuda_kahan",
            cpp_sources=CPP,
            cuda_sources=CUDA,
            functions=["compensated_softmax"],
            extra_cuda_cflags=["-O3"],
        )
    return _module


class Model(nn.Module):
    def __init__(self, batch: int, vocab: int):
        super().__init__()
        self.batch, self.vocab = batch, vocab

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension().compensated_softmax(x.contiguous())


def get_inputs():
    return [torch.randn(batch, vocab) * 4.0]


def get_init_inputs():
    return [batch, vocab]
