"""Softmax in one pass over memory: a cluster of thread blocks holds a row in registers (CUDA, sm_90a).

A row is cut into slices, one a block of a cluster of up to 16. Every thread keeps its values in registers, so a row is
read once and written once. Each warp takes the maximum of its own values, exponentiates against it and adds up in
pairs: (high, low) stands for high + low, and `low` holds what the additions rounded away (Kahan, TwoSum). The warp's
triple (maximum, high, low) is pushed into the shared memory of every block of the cluster. One cluster barrier later
each warp merges all triples by TwoSum and scales the exponentials that it still holds.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

constexpr unsigned ALL = 0xffffffffu;
constexpr int MAX_CLUSTER = 16;
constexpr float LOWEST = -3.0e38f;  // instead of -inf, so that differences of two maxima are never NaN

// (high, low) += value, exactly up to the rounding of low itself: Knuth's TwoSum.
__device__ __forceinline__ void add(float& high, float& low, float value) {
    const float sum = __fadd_rn(high, value);
    const float seen = __fsub_rn(sum, high);
    low += __fadd_rn(__fsub_rn(high, __fsub_rn(sum, seen)), __fsub_rn(value, seen));
    high = sum;
}

// The same for one term, by Kahan's four operations: enough where no term is much larger than the sum becomes.
__device__ __forceinline__ void accumulate(float& high, float& low, float term) {
    const float value = __fadd_rn(term, low);
    const float sum = __fadd_rn(high, value);
    low = __fsub_rn(value, __fsub_rn(sum, high));
    high = sum;
}

// The sum over a warp of pairs, in every lane.
__device__ __forceinline__ void add_lanes(float& high, float& low) {
#pragma unroll
    for (int step = 16; step; step >>= 1) {
        const float other_high = __shfl_xor_sync(ALL, high, step);
        const float other_low = __shfl_xor_sync(ALL, low, step);
        add(high, low, other_high);
        low += other_low;
    }
}

__device__ __forceinline__ float max_lanes(float value) {
#pragma unroll
    for (int step = 16; step; step >>= 1) value = fmaxf(value, __shfl_xor_sync(ALL, value, step));
    return value;
}

// VECTORS float4 a thread; a block owns `slice` consecutive columns of its cluster's row.
template <int THREADS, int VECTORS>
__global__ void __launch_bounds__(THREADS) softmax_kernel(const float* __restrict__ x, float* __restrict__ y, int n,
                                                          int slice) {
    constexpr int WARPS = THREADS / 32;
    __shared__ float3 parts[MAX_CLUSTER * WARPS];
    cg::cluster_group cluster = cg::this_cluster();
    const int blocks = cluster.num_blocks(), rank = cluster.block_rank();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const long long row = (long long)(blockIdx.x / blocks) * n;
    const int end = min(n, (rank + 1) * slice), first = rank * slice + threadIdx.x * 4;
    const bool vector = n % 4 == 0;
    cluster.barrier_arrive();  // waited for below: no block writes to one that has not started

    float value[VECTORS][4];
    float top = LOWEST;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const int column = first + i * THREADS * 4;
        if (vector && column < end) {
            const float4 read = __ldcs(reinterpret_cast<const float4*>(x + row + column));
            value[i][0] = read.x, value[i][1] = read.y, value[i][2] = read.z, value[i][3] = read.w;
        } else {
#pragma unroll
            for (int j = 0; j < 4; ++j) value[i][j] = column + j < end ? x[row + column + j] : -INFINITY;
        }
    }
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) top = fmaxf(top, value[i][j]);
    top = max_lanes(top);

    float high = 0.f, low = 0.f;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            value[i][j] = __expf(value[i][j] - top);
            accumulate(high, low, value[i][j]);
        }
    add_lanes(high, low);

    cluster.barrier_wait();
    if (lane < blocks) *cluster.map_shared_rank(&parts[rank * WARPS + warp], lane) = make_float3(top, high, low);
    cluster.sync();

    float peak = LOWEST;
    for (int i = lane; i < blocks * WARPS; i += 32) peak = fmaxf(peak, parts[i].x);
    peak = max_lanes(peak);
    high = low = 0.f;
    for (int i = lane; i < blocks * WARPS; i += 32) {
        const float3 part = parts[i];
        const float shrink = expf(part.x - peak);
        add(high, low, part.y * shrink);
        low += part.z * shrink;
    }
    add_lanes(high, low);

    const float scale = expf(top - peak) / (high + low);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const int column = first + i * THREADS * 4;
        if (vector && column < end) {
            __stcs(reinterpret_cast<float4*>(y + row + column), make_float4(value[i][0] * scale, value[i][1] * scale,
                                                                          value[i][2] * scale, value[i][3] * scale));
        } else {
#pragma unroll
            for (int j = 0; j < 4; ++j)
                if (column + j < end) y[row + column + j] = value[i][j] * scale;
        }
    }
}

template <int THREADS, int VECTORS>
void launch(const torch::Tensor& x, torch::Tensor& y, int blocks) {
    const int n = x.size(1);
    const int slice = ((n + blocks - 1) / blocks + 3) / 4 * 4;
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {(unsigned)blocks, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(x.size(0) * blocks);
    config.blockDim = dim3(THREADS);
    config.stream = c10::cuda::getCurrentCUDAStream();
    config.attrs = &cluster;
    config.numAttrs = 1;
    auto kernel = softmax_kernel<THREADS, VECTORS>;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    const float* source = x.data_ptr<float>();
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, source, y.data_ptr<float>(), n, slice));
}

torch::Tensor softmax(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda() && x.dim() == 2 && x.scalar_type() == torch::kFloat && x.is_contiguous(),
                "x must be a contiguous [batch, vocab] fp32 tensor on a GPU");
    const c10::cuda::CUDAGuard guard(x.device());
    auto y = torch::empty_like(x);
    const int n = x.size(1);
    TORCH_CHECK(n <= 16 * 32768, "a row of more than 524288 logits does not fit the registers of a cluster");
    // Measured on an H200: many values a thread, and clusters of sixteen only where a row does not fit eight blocks.
    int blocks = 1;
    while (blocks < MAX_CLUSTER && n > blocks * 16384) blocks *= 2;
    while (blocks < 8 && x.size(0) * blocks < 128 && n > blocks * 1024) blocks *= 2;
    const int slice = (n + blocks - 1) / blocks;
    if (slice <= 1024) launch<256, 1>(x, y, blocks);
    else if (slice <= 2048) launch<128, 4>(x, y, blocks);
    else if (slice <= 4096) launch<256, 4>(x, y, blocks);
    else if (slice <= 8192) launch<256, 8>(x, y, blocks);
    else if (slice <= 16384) launch<512, 8>(x, y, blocks);
    else launch<1024, 8>(x, y, blocks);
    return y;
}
"""

extension = load_inline(
    name="cluster_softmax",
    cpp_sources="torch::Tensor softmax(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["softmax"],
    extra_cuda_cflags=["-O3", "-gencode=arch=compute_90a,code=sm_90a"],
)


class Model(nn.Module):
    """x [batch, vocab] f32 -> softmax over the last dimension, f32."""

    def __init__(self, batch: int, vocab: int) -> None:
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.softmax(x)
