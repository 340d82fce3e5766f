"""W4A16 GEMM in CUDA for Hopper: nibbles become bf16 operand fragments in registers, right before the product.

A packed byte holds rows k and k + 1 of one column, which is just the pair that a fragment register of the tensor
core wants. So the weight is the left operand: y^T = W^T x^T, with the columns of W as rows of the product. A byte
is expanded with one permutation and one logic operation: 0x4300 | q is 128 + q in bf16, exactly.

Up to 16 rows (decode) the work is to read the weight. A warp takes one quantisation group of 128 rows at a time,
straight from global memory into registers, 16 loads in flight a thread. It multiplies 128 + q and corrects
afterwards in fp32: scale * (sum (128 + q) x - (128 + zero) sum x), where sum x comes from one more product with
ones. Warps of a block and blocks of a cluster split the depth; their sums meet in shared memory, in a fixed order.

With more rows (batched) the work is to multiply. Three warpgroups issue wgmma with the weight from registers, as
bf16((q - zero) * scale), and x from shared memory; nibbles of the next step are expanded while the product runs.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <stdint.h>

namespace cg = cooperative_groups;
using bf16 = __nv_bfloat16;

constexpr int GROUP = 128;               // rows of the depth that share a scale and a zero
constexpr uint32_t ONES = 0x3F803F80u;   // a bf16 pair of ones
constexpr uint32_t BIAS = 0x43004300u;   // a bf16 pair of 128

// The two nibbles of byte `at` of a word, as bf16 pair (128 + low, 128 + high); `shifted` is word >> 4.
__device__ __forceinline__ uint32_t expand(uint32_t word, uint32_t shifted, int at) {
    uint32_t pair;
    asm("lop3.b32 %0, %1, 0x000F000F, %2, 0xEA;\n"    // (a & b) | c in one instruction
        : "=r"(pair) : "r"(__byte_perm(word, shifted, at | (4 + at) << 8)), "r"(BIAS));
    return pair;
}

__device__ __forceinline__ float2 unpack(uint32_t pair) {
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u));
}

__device__ __forceinline__ uint32_t word_of(const uint4& v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// ---- up to 16 rows: decode

__device__ __forceinline__ void mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                    uint32_t b1) {
    asm(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// 16 bytes at `column` of a row; beyond the row's end (ALIGNED) those of its last 16 columns, which nobody will use.
// Where rows do not start on 16 bytes they are read one by one. No branch lies between the loads of ALIGNED, so all
// loads of a thread are under way at once.
template <bool ALIGNED, typename T>
__device__ __forceinline__ uint4 read16(const T* row, int column, int n) {
    uint4 v = make_uint4(0, 0, 0, 0);
    if constexpr (ALIGNED) {
        const T* p = row + min(column, n - int(16 / sizeof(T)));
        asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    } else {
        T* to = reinterpret_cast<T*>(&v);
        for (int i = 0; i < int(16 / sizeof(T)); ++i) {
            if (column + i < n) to[i] = row[column + i];
        }
    }
    return v;
}

__device__ __forceinline__ void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];\n" :: "l"(p)); }

// Where the sums of a warp lie in shared memory: column 16 * i + c of row r at r * ROW + 8 * c + i, so that lanes of
// a warp meet different banks.
constexpr int ROW = 132;

__device__ __forceinline__ int place(int row, int column) { return row * ROW + column % 16 * 8 + column / 16; }

// A block makes 128 columns by 8 * TILES rows; warp w of block s of the cluster takes groups s * WARPS + w, and so on.
template <int TILES, int WARPS, int SPLITS, bool ALIGNED>
__global__ void __cluster_dims__(1, SPLITS, 1) __launch_bounds__(WARPS * 32, TILES == 1 ? 16 / WARPS : 1)
decode(const bf16* __restrict__ x, const uint8_t* __restrict__ packed, const bf16* __restrict__ scales,
       const bf16* __restrict__ zeros, bf16* __restrict__ y, int m, int n, int k) {
    constexpr int ROWS = 8 * TILES;
    extern __shared__ float shared[];                  // [WARPS][ROWS][ROW]
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, gid = lane / 4, tid = lane % 4;
    const int column = blockIdx.x * 128 + gid * 16;    // the first of this thread's 16 columns
    const int row0 = blockIdx.z * ROWS;
    const int rows = min(m - row0, ROWS);
    float* const mine = shared + warp * ROWS * ROW;    // of one warp until all are done
    for (int e = lane; e < ROWS * ROW; e += 32) mine[e] = 0.f;
    __syncwarp();
    for (int group = blockIdx.y * WARPS + warp; group < k / GROUP; group += SPLITS * WARPS) {
        // Thread `tid` of four takes depth 32 * tid and on, so that its share of x lies together.
        const uint8_t* bytes = packed + (size_t(group) * (GROUP / 2) + tid * 16) * n;
        if (column < n && tid < 2) {                   // needed after the products; on their way from now on
            prefetch((tid == 0 ? scales : zeros) + size_t(group) * n + column);
        }
        uint4 q[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) q[i] = read16<ALIGNED>(bytes + size_t(i) * n, column, n);
        float sums[TILES][8][4] = {};
        float ones[TILES][4] = {};
        #pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            uint4 b[TILES];
            #pragma unroll
            for (int t = 0; t < TILES; ++t) {
                const int row = row0 + t * 8 + gid;
                b[t] = make_uint4(0, 0, 0, 0);
                if (row < m) {
                    b[t] = *reinterpret_cast<const uint4*>(x + size_t(row) * k + group * GROUP + tid * 32 + pair * 8);
                }
            }
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint4 q0 = q[pair * 4 + half * 2], q1 = q[pair * 4 + half * 2 + 1];
                #pragma unroll
                for (int j = 0; j < 8; ++j) {
                    const uint32_t w0 = word_of(q0, j / 2), w1 = word_of(q1, j / 2);
                    const int at = j % 2 * 2;
                    const uint32_t a0 = expand(w0, w0 >> 4, at), a1 = expand(w0, w0 >> 4, at + 1);
                    const uint32_t a2 = expand(w1, w1 >> 4, at), a3 = expand(w1, w1 >> 4, at + 1);
                    #pragma unroll
                    for (int t = 0; t < TILES; ++t) {
                        mma(sums[t][j], a0, a1, a2, a3, word_of(b[t], half * 2), word_of(b[t], half * 2 + 1));
                    }
                }
                #pragma unroll
                for (int t = 0; t < TILES; ++t) {
                    mma(ones[t], ONES, ONES, ONES, ONES, word_of(b[t], half * 2), word_of(b[t], half * 2 + 1));
                }
            }
        }
        #pragma unroll
        for (int part = 0; part < 2; ++part) {
            const uint4 s4 = read16<ALIGNED>(scales + size_t(group) * n, column + part * 8, n);
            const uint4 z4 = read16<ALIGNED>(zeros + size_t(group) * n, column + part * 8, n);
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float2 s = unpack(word_of(s4, i)), z = unpack(word_of(z4, i));
                const int j = part * 4 + i;
                #pragma unroll
                for (int t = 0; t < TILES; ++t) {
                    #pragma unroll
                    for (int odd = 0; odd < 2; ++odd) {
                        const int row = t * 8 + tid * 2 + odd;
                        if (row >= rows) continue;
                        float* const at = mine + place(row, gid * 16 + j * 2);
                        at[0] += s.x * (sums[t][j][odd] - (128.f + z.x) * ones[t][odd]);
                        at[8] += s.y * (sums[t][j][2 + odd] - (128.f + z.y) * ones[t][odd]);
                    }
                }
            }
        }
    }
    __syncthreads();
    for (int e = threadIdx.x; e < rows * ROW; e += WARPS * 32) {
        float sum = shared[e];
        #pragma unroll
        for (int w = 1; w < WARPS; ++w) sum += shared[w * ROWS * ROW + e];
        shared[e] = sum;
    }
    auto cluster = cg::this_cluster();
    cluster.sync();
    for (int e = blockIdx.y * WARPS * 32 + threadIdx.x; e < rows * 128; e += SPLITS * WARPS * 32) {
        float sum = 0.f;
        #pragma unroll
        for (int s = 0; s < SPLITS; ++s) sum += cluster.map_shared_rank(shared, s)[place(e / 128, e % 128)];
        const int c = blockIdx.x * 128 + e % 128;
        if (c < n) y[size_t(row0 + e / 128) * n + c] = __float2bfloat16(sum);
    }
    cluster.sync();                                    // a block's shared memory lives until the others have read it
}

// ---- more rows: batched

constexpr int BN = 192, BK = 64;
constexpr int THREADS = BN * 2;                        // a warpgroup for 64 columns
constexpr int PITCH = BN + 16;                         // bytes of a row of packed weights: four rows meet other banks
constexpr int SUMS = BN + 4;                           // floats of a row of sums

// BM rows of x in SPLITS parts of the depth, with STAGES steps on their way.
template <int ROWS_, int SPLITS_, int STAGES_>
struct Tile {
    static constexpr int BM = ROWS_, SPLITS = SPLITS_, STAGES = STAGES_;
    static constexpr int X_BYTES = BM * BK * 2, STAGE_BYTES = (X_BYTES + BK / 2 * PITCH + 1023) / 1024 * 1024;
    static constexpr int BYTES = STAGES * STAGE_BYTES + 1024;
    static_assert(BM * SUMS * 4 <= STAGES * STAGE_BYTES, "the sums take the place of the stages");
};

__device__ __forceinline__ uint32_t address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void copy16(void* to, const void* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
                 :: "r"(address(to)), "l"(from), "r"(inside ? 16 : 0));
}

// wgmma's description of a K-major tile with rows of 128 swizzled bytes.
__device__ __forceinline__ uint64_t describe(uint32_t at) {
    return uint64_t((at & 0x3FFFF) >> 4) | uint64_t(1) << 16 | uint64_t(64) << 32 | uint64_t(1) << 62;
}

#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
// d += a b over 16 rows of the depth; the first product of a tile overwrites d instead.
__device__ __forceinline__ void wgmma(float (&d)[16], const uint32_t (&a)[4], uint64_t b, int accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, p, 1, 1, 0;\n}\n"
        : D16(0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}
__device__ __forceinline__ void wgmma(float (&d)[64], const uint32_t (&a)[4], uint64_t b, int accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, p, 1, 1, 0;\n}\n"
        : D16(0), D16(16), D16(32), D16(48)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

// One step of 64 rows of the depth: x [BM][64] bf16, swizzled, and packed bytes [32][BN].
template <typename T>
__device__ __forceinline__ void load_step(uint8_t* stage, const bf16* x, const uint8_t* packed, int step,
                                          int row0, int column0, int m, int n, int k) {
    #pragma unroll
    for (int i = threadIdx.x; i < T::BM * 8; i += THREADS) {
        const int r = i / 8, c = i % 8;
        const bool inside = row0 + r < m;
        copy16(stage + r * 128 + (c ^ (r & 7)) * 16, x + size_t(inside ? row0 + r : 0) * k + step * BK + c * 8, inside);
    }
    const int r = threadIdx.x / (BN / 16), at = threadIdx.x % (BN / 16) * 16, c = column0 + at;   // 16 bytes a thread
    uint8_t* to = stage + T::X_BYTES + r * PITCH + at;
    const uint8_t* from = packed + size_t(step * (BK / 2) + r) * n + c;
    if (n % 16 == 0) {
        copy16(to, c < n ? from : packed, c < n);
    } else {
        for (int i = 0; i < 16; ++i) to[i] = c + i < n ? from[i] : 0;
    }
}

// Left-operand fragments of one step for this thread's two columns: bf16((q - zero) * scale).
__device__ __forceinline__ void fragments(uint32_t (&a)[4][4], const uint8_t* bytes, const __nv_bfloat162 (&zero)[2],
                                          const __nv_bfloat162 (&scale)[2]) {
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const uint32_t word = *reinterpret_cast<const uint16_t*>(bytes + i * 4 * PITCH);
        #pragma unroll
        for (int c = 0; c < 2; ++c) {
            const uint32_t pair = expand(word, word >> 4, c);
            const __nv_bfloat162 q = __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&pair), zero[c]);
            const __nv_bfloat162 w = __hmul2(q, scale[c]);
            a[i / 2][i % 2 * 2 + c] = *reinterpret_cast<const uint32_t*>(&w);
        }
    }
}

// Zero and scale of this thread's two columns.
__device__ __forceinline__ void read_group(bf16 (&zero)[2], bf16 (&scale)[2], const bf16* zeros, const bf16* scales,
                                           int column, int n) {
    #pragma unroll
    for (int c = 0; c < 2; ++c) {
        zero[c] = zeros[min(column + c, n - 1)];
        scale[c] = scales[min(column + c, n - 1)];
    }
}

template <typename T>
__global__ void __cluster_dims__(1, T::SPLITS, 1) __launch_bounds__(THREADS, T::BM == 32 ? 2 : 1)
batched(const bf16* __restrict__ x, const uint8_t* __restrict__ packed, const bf16* __restrict__ scales,
        const bf16* __restrict__ zeros, bf16* __restrict__ y, int m, int n, int k) {
    extern __shared__ uint8_t raw[];
    uint8_t* stages = raw + (1024 - address(raw) % 1024) % 1024;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, gid = lane / 4, tid = lane % 4;
    const int row0 = blockIdx.z * T::BM, column0 = blockIdx.x * BN;
    const int mine = warp * 16 + gid * 2;              // of this thread's two columns the first, in the tile
    const int groups = k / GROUP, share = (groups + T::SPLITS - 1) / T::SPLITS;
    const int first = min(int(blockIdx.y) * share, groups) * 2, steps = min(share * 2, groups * 2 - first);
    float d[T::BM / 2];
    uint32_t a[2][4][4];
    bf16 next_zero[2], next_scale[2];                  // read one group ahead
    if (steps > 0) {
        const size_t row = size_t(first / 2) * n;
        read_group(next_zero, next_scale, zeros + row, scales + row, column0 + mine, n);
    } else {
        #pragma unroll
        for (int i = 0; i < T::BM / 2; ++i) d[i] = 0.f;
    }
    for (int s = 0; s < T::STAGES - 2; ++s) {
        if (s < steps) load_step<T>(stages + s * T::STAGE_BYTES, x, packed, first + s, row0, column0, m, n, k);
        asm volatile("cp.async.commit_group;\n");
    }
    for (int base = 0; base < steps; base += 2) {      // a group of 128 is two steps
        __nv_bfloat162 zero[2], scale[2];
        #pragma unroll
        for (int c = 0; c < 2; ++c) {                  // 128 + zero is exact: zeros are whole numbers from 0 to 15
            zero[c] = __float2bfloat162_rn(128.f + __bfloat162float(next_zero[c]));
            scale[c] = __bfloat162bfloat162(next_scale[c]);
        }
        if (base + 2 < steps) {
            const size_t row = size_t((first + base) / 2 + 1) * n;
            read_group(next_zero, next_scale, zeros + row, scales + row, column0 + mine, n);
        }
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int step = base + half;
            asm volatile("cp.async.wait_group %0;\n" :: "n"(T::STAGES - 3));
            asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
            __syncthreads();
            uint8_t* stage = stages + step % T::STAGES * T::STAGE_BYTES;
            fragments(a[half], stage + T::X_BYTES + tid * PITCH + mine, zero, scale);
            asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
            asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
            #pragma unroll
            for (int i = 0; i < 4; ++i) wgmma(d, a[half][i], describe(address(stage) + i * 32), step + i);
            asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
            // Every warp is past the product of two steps ago: its stage is free.
            const int next = step + T::STAGES - 2;
            uint8_t* to = stages + next % T::STAGES * T::STAGE_BYTES;
            if (next < steps) load_step<T>(to, x, packed, first + next, row0, column0, m, n, k);
            asm volatile("cp.async.commit_group;\n");
        }
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
    __syncthreads();                                   // all products are done: sums take the place of the stages
    float* sums = reinterpret_cast<float*>(stages);
    #pragma unroll
    for (int i = 0; i < T::BM / 4; ++i) {
        const int row = i / 2 * 8 + tid * 2 + i % 2;
        const float2 pair = make_float2(d[i / 2 * 4 + i % 2], d[i / 2 * 4 + 2 + i % 2]);
        *reinterpret_cast<float2*>(sums + row * SUMS + mine) = pair;
    }
    auto cluster = cg::this_cluster();
    cluster.sync();
    const int rows = min(m - row0, T::BM);
    for (int e = blockIdx.y * THREADS + threadIdx.x; e < rows * BN; e += T::SPLITS * THREADS) {
        float sum = 0.f;
        #pragma unroll
        for (int s = 0; s < T::SPLITS; ++s) sum += cluster.map_shared_rank(sums, s)[e / BN * SUMS + e % BN];
        const int c = column0 + e % BN;
        if (c < n) y[size_t(row0 + e / BN) * n + c] = __float2bfloat16(sum);
    }
    cluster.sync();                                    // a block's shared memory lives until the others have read it
}

// ---- launches

static const bf16* in(const torch::Tensor& t) { return reinterpret_cast<const bf16*>(t.data_ptr()); }

template <int TILES, int WARPS, int SPLITS, bool ALIGNED>
void launch_decode(const torch::Tensor& x, const torch::Tensor& packed, const torch::Tensor& scales,
                   const torch::Tensor& zeros, torch::Tensor& y) {
    const int m = x.size(0), k = x.size(1), n = packed.size(1);
    const int bytes = WARPS * 8 * TILES * ROW * int(sizeof(float));
    cudaFuncSetAttribute(decode<TILES, WARPS, SPLITS, ALIGNED>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    const dim3 grid((n + 127) / 128, SPLITS, (m + 8 * TILES - 1) / (8 * TILES));
    decode<TILES, WARPS, SPLITS, ALIGNED><<<grid, WARPS * 32, bytes, at::cuda::getCurrentCUDAStream()>>>(
        in(x), packed.data_ptr<uint8_t>(), in(scales), in(zeros), reinterpret_cast<bf16*>(y.data_ptr()), m, n, k);
}

template <typename T>
void launch_batched(const torch::Tensor& x, const torch::Tensor& packed, const torch::Tensor& scales,
                    const torch::Tensor& zeros, torch::Tensor& y) {
    const int m = x.size(0), k = x.size(1), n = packed.size(1);
    cudaFuncSetAttribute(batched<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, T::BYTES);
    const dim3 grid((n + BN - 1) / BN, T::SPLITS, (m + T::BM - 1) / T::BM);
    batched<T><<<grid, THREADS, T::BYTES, at::cuda::getCurrentCUDAStream()>>>(
        in(x), packed.data_ptr<uint8_t>(), in(scales), in(zeros), reinterpret_cast<bf16*>(y.data_ptr()), m, n, k);
}

void w4a16(torch::Tensor x, torch::Tensor packed, torch::Tensor scales, torch::Tensor zeros, torch::Tensor y) {
    const int m = x.size(0), n = packed.size(1);
    if (m <= 8 && n % 16 == 0 && n >= 8192) {
        launch_decode<1, 4, 4, true>(x, packed, scales, zeros, y);
    } else if (m <= 8 && n % 16 == 0) {
        launch_decode<1, 4, 8, true>(x, packed, scales, zeros, y);   // few columns: more blocks share the depth
    } else if (m <= 8) {
        launch_decode<1, 4, 8, false>(x, packed, scales, zeros, y);
    } else if (m <= 16 && n % 16 == 0) {
        launch_decode<2, 4, 2, true>(x, packed, scales, zeros, y);
    } else if (m <= 32) {
        launch_batched<Tile<32, 2, 8>>(x, packed, scales, zeros, y);
    } else {
        launch_batched<Tile<128, 1, 6>>(x, packed, scales, zeros, y);
    }
    TORCH_CHECK(cudaGetLastError() == cudaSuccess, "the launch failed");
}
"""

_DECLARATION = """
void w4a16(torch::Tensor x, torch::Tensor packed, torch::Tensor scales, torch::Tensor zeros, torch::Tensor y);
"""


def build():
    """The compiled extension; torch keeps it, so a second call is quick."""
    return load_inline(
        name="kbh_w4a16_cuda",
        cpp_sources=[_DECLARATION],
        cuda_sources=[SOURCE],
        functions=["w4a16"],
        extra_cuda_cflags=["-O3", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a"],
    )


class Model(nn.Module):
    """y[M,N] bf16 = x[M,K] bf16 @ ((q - zero) * scale), q unpacked from w_q[K/2,N]; groups of 128."""

    def __init__(self, M: int, N: int, K: int, group_size: int = 128) -> None:
        super().__init__()
        if group_size != 128:
            raise ValueError("this kernel is written for groups of 128")
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self._extension = build()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty((x.shape[0], self.w_q.shape[1]), dtype=torch.bfloat16, device=x.device)
        self._extension.w4a16(x.contiguous(), self.w_q, self.scales, self.zeros, y)
        return y
