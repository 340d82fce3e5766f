"""Top-k in one launch: a bound that leaves few candidates, whose ranks are then counted (CUDA, sm_90a).

A value and its column are one 64-bit key whose order is that of the values; keys are unique, so ties need no care.
A row is cut into slices, one a block of a cluster, and every thread holds its keys in registers. Of `groups` groups
of keys, each has ceil(k / groups) keys that are not below its own ceil(k / groups)-th best; so at least k keys reach
the smallest of these. Groups are the warps, with the best key of each thread. Mostly little more than k keys reach
the bound; where more do than a block has threads, bisection raises it. The candidates go to shared memory, and the
number of larger ones among them is a key's place in the result. The blocks' results meet in the first block of the
cluster, where the groups are the blocks and the same steps give the result of the row.
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

#include <tuple>

namespace cg = cooperative_groups;
using Key = unsigned long long;

constexpr unsigned ALL = 0xffffffffu;
constexpr int THREADS = 256, WARPS = THREADS / 32, MAX_CLUSTER = 16, MAX_K = 64;

__device__ __forceinline__ Key key_of(float value, int column) {
    const unsigned bits = __float_as_uint(value);
    const unsigned ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (Key)ordered << 32 | ~(unsigned)column;  // of equal values the first column is the larger key
}

__device__ __forceinline__ float value_of(Key key) {
    const unsigned ordered = key >> 32;
    return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}

struct Scratch {
    Key found[THREADS];
    unsigned warps[2][WARPS];
    int found_count;
};

// The smallest over all warps of the nth best among a warp's lanes, by the upper halves of their keys.
__device__ __forceinline__ Key bound_of_warps(Key best, int nth, Scratch& scratch) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned mine = best >> 32, top = 0;
    for (int i = 0; i < nth; ++i) {
        top = __reduce_max_sync(ALL, mine);
        if (lane == __ffs(__ballot_sync(ALL, mine == top)) - 1) mine = 0;
    }
    if (lane == 0) scratch.warps[0][warp] = top;
    __syncthreads();
    unsigned least = scratch.warps[0][0];
#pragma unroll
    for (int i = 1; i < WARPS; ++i) least = min(least, scratch.warps[0][i]);
    return (Key)least << 32;
}

// How many keys of the block reach the bound. Calls alternate between the two rows of scratch.warps.
template <int PER>
__device__ __forceinline__ int reaching(const Key (&keys)[PER], Key bound, int turn, Scratch& scratch) {
    unsigned count = 0;
#pragma unroll
    for (int i = 0; i < PER; ++i) count += keys[i] >= bound;
    count = __reduce_add_sync(ALL, count);
    if (threadIdx.x % 32 == 0) scratch.warps[turn % 2][threadIdx.x / 32] = count;
    __syncthreads();
    count = 0;
#pragma unroll
    for (int i = 0; i < WARPS; ++i) count += scratch.warps[turn % 2][i];
    return count;
}

// Calls emit(place, key) for the k best keys of the block; at least k reach `bound`. Keys that are 0 are no keys.
template <int PER, typename Emit>
__device__ __forceinline__ void select(const Key (&keys)[PER], Key bound, int k, Scratch& scratch, Emit emit) {
    bound = bound > 1 ? bound : 1;
    if (threadIdx.x == 0) scratch.found_count = 0;
    int turn = 1, count = reaching<PER>(keys, bound, turn, scratch);
    for (Key above = ~0ull; count > THREADS;) {  // fewer than k keys reach `above`
        const Key middle = bound + (above - bound) / 2;
        const int reached = reaching<PER>(keys, middle, ++turn, scratch);
        if (reached < k) {
            above = middle;
        } else {
            bound = middle;
            count = reached;
        }
    }
#pragma unroll
    for (int i = 0; i < PER; ++i)
        if (keys[i] >= bound) scratch.found[atomicAdd(&scratch.found_count, 1)] = keys[i];
    __syncthreads();
    if (threadIdx.x < count) {
        const Key key = scratch.found[threadIdx.x];
        int place = 0;
#pragma unroll 8
        for (int i = 0; i < count; ++i) place += scratch.found[i] > key;
        if (place < k) emit(place, key);
    }
}

// PER values a thread; a block owns `slice` consecutive columns of its cluster's row.
template <int PER>
__global__ void __launch_bounds__(THREADS) topk_kernel(const float* __restrict__ x, float* __restrict__ values,
                                                       int64_t* __restrict__ indices, int n, int k, int slice) {
    constexpr int SHARE = MAX_CLUSTER * MAX_K / THREADS;
    __shared__ Scratch scratch;
    __shared__ Key results[MAX_CLUSTER * MAX_K];  // of all blocks, in the first one
    cg::cluster_group cluster = cg::this_cluster();
    const int blocks = cluster.num_blocks(), rank = cluster.block_rank();
    const long long row = blockIdx.x / blocks;
    const int first = rank * slice + threadIdx.x * 4, end = min(n, (rank + 1) * slice);
    if (blocks > 1) {
#pragma unroll
        for (int i = 0; i < SHARE; ++i) results[threadIdx.x + i * THREADS] = 0;
        cluster.barrier_arrive();  // waited for below: no block writes to one that has not come this far
    }

    float value[PER];
#pragma unroll
    for (int i = 0; i < PER; i += 4) {
        const int column = first + i * THREADS;
        if (n % 4 == 0 && column < end) {
            const float4 read = __ldcs(reinterpret_cast<const float4*>(x + row * n + column));
            value[i] = read.x, value[i + 1] = read.y, value[i + 2] = read.z, value[i + 3] = read.w;
        } else {
#pragma unroll
            for (int j = 0; j < 4; ++j) value[i + j] = column + j < end ? x[row * n + column + j] : 0.f;
        }
    }
    Key keys[PER], best = 0;
#pragma unroll
    for (int i = 0; i < PER; ++i) {
        const int column = first + i / 4 * 4 * THREADS + i % 4;
        keys[i] = column < end ? key_of(value[i], column) : 0;
        best = best > keys[i] ? best : keys[i];
    }
    const auto write = [&](int place, Key key) {
        values[row * k + place] = value_of(key);
        indices[row * k + place] = (int64_t)(unsigned)~(unsigned)key;
    };
    const Key bound = bound_of_warps(best, (k + WARPS - 1) / WARPS, scratch);
    if (blocks == 1) {
        select<PER>(keys, bound, k, scratch, write);
        return;
    }
    Key* gathered = cluster.map_shared_rank(results, 0) + rank * k;
    cluster.barrier_wait();
    select<PER>(keys, bound, k, scratch, [&](int place, Key key) { gathered[place] = key; });
    cluster.sync();
    if (rank != 0) return;

    Key shared_bound = ~0ull, share[SHARE];
    for (int i = 0; i < blocks; ++i) {
        const Key last = results[i * k + (k + blocks - 1) / blocks - 1];
        shared_bound = shared_bound < last ? shared_bound : last;
    }
#pragma unroll
    for (int i = 0; i < SHARE; ++i) share[i] = results[threadIdx.x + i * THREADS];
    select<SHARE>(share, shared_bound, k, scratch, write);
}

template <int PER>
void launch(const torch::Tensor& x, torch::Tensor& values, torch::Tensor& indices, int blocks) {
    const int n = x.size(1), k = values.size(1);
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
    auto kernel = topk_kernel<PER>;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, (const float*)x.data_ptr<float>(), values.data_ptr<float>(),
                                      indices.data_ptr<int64_t>(), n, k, slice));
}

std::tuple<torch::Tensor, torch::Tensor> topk(torch::Tensor x, int64_t k) {
    TORCH_CHECK(x.is_cuda() && x.dim() == 2 && x.scalar_type() == torch::kFloat && x.is_contiguous(),
                "x must be a contiguous [batch, n] fp32 tensor on a GPU");
    const int64_t n = x.size(1);
    TORCH_CHECK(k >= 1 && k <= MAX_K && k <= n, "k must be between 1 and 64, and not exceed n");
    TORCH_CHECK(n <= MAX_CLUSTER * THREADS * 32, "n must not exceed 131072");
    const c10::cuda::CUDAGuard guard(x.device());
    auto values = torch::empty({x.size(0), k}, x.options());
    auto indices = torch::empty({x.size(0), k}, x.options().dtype(torch::kLong));
    int blocks = 1;
    while (blocks < MAX_CLUSTER && (x.size(0) * blocks < 96 && n > blocks * 2048 || n > blocks * 8192)) blocks *= 2;
    const int64_t slice = (n + blocks - 1) / blocks;
    if (slice <= 1024) launch<4>(x, values, indices, blocks);
    else if (slice <= 2048) launch<8>(x, values, indices, blocks);
    else if (slice <= 4096) launch<16>(x, values, indices, blocks);
    else launch<32>(x, values, indices, blocks);
    return {values, indices};
}
"""

extension = load_inline(
    name="cluster_topk",
    cpp_sources="std::tuple<torch::Tensor, torch::Tensor> topk(torch::Tensor x, int64_t k);",
    cuda_sources=CUDA,
    functions=["topk"],
    extra_cuda_cflags=["-O3", "-gencode=arch=compute_90a,code=sm_90a"],
)


class Model(nn.Module):
    """x [batch, n] f32 -> values [batch, k] f32 in descending order, indices [batch, k] i64."""

    def __init__(self, batch: int, n: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return extension.topk(x, self.k)
