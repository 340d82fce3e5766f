"""FP8 GEMM in CUDA for Hopper: TMA brings e4m3 tiles into shared memory, wgmma multiplies them as they are.

One thread of a block does nothing but ask the TMA unit for tiles; one or two consumer warpgroups multiply them. A
ring of stages lies between, with two barriers a stage: `full` (the bytes are there) and `empty` (every consumer is
done with it). The column scale multiplies the fp32 accumulator. A short activation (decode) gets tiles of 64 rows,
the fewest that wgmma takes, by 64 columns, so that the weight is spread over all multiprocessors.

TMA wants rows that start on 16 bytes. Where the depth does not give that, both operands are copied into rows that
do, in e4m3 with zeros behind: the activation on every call, the weight once per version of the buffer.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <stdint.h>

constexpr int BK = 128;                                // bytes of depth a stage: one swizzled row
constexpr int GROUP = 8;                               // rows of tiles that are walked together, for L2

__device__ __forceinline__ uint32_t address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void init(uint64_t* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" :: "r"(address(barrier)), "r"(arrivals));
}
__device__ __forceinline__ void arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" :: "r"(address(barrier)) : "memory");
}
__device__ __forceinline__ void expect(uint64_t* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n"
                 :: "r"(address(barrier)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait(uint64_t* barrier, int parity) {
    asm volatile(
        "{\n.reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n}\n" :: "r"(address(barrier)), "r"(parity) : "memory");
}
__device__ __forceinline__ void load(void* to, const CUtensorMap* map, uint64_t* barrier, int k, int row) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];\n"
        :: "r"(address(to)), "l"(map), "r"(address(barrier)), "r"(k), "r"(row) : "memory");
}

// wgmma's description of a K-major tile with rows of 128 swizzled bytes.
__device__ __forceinline__ uint64_t describe(const void* p) {
    return uint64_t((address(p) & 0x3FFFF) >> 4) | uint64_t(1) << 16 | uint64_t(64) << 32 | uint64_t(1) << 62;
}

#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
#define D32(i) D16(i), D16(i + 16)

// d += a b over 32 bytes of depth; the first product of a tile overwrites d instead.
__device__ __forceinline__ void product(float (&d)[32], uint64_t a, uint64_t b, int accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1;\n}\n"
        : D32(0) : "l"(a), "l"(b), "r"(accumulate));
}
__device__ __forceinline__ void product(float (&d)[128], uint64_t a, uint64_t b, int accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, p, 1, 1;\n}\n"
        : D32(0), D32(32), D32(64), D32(96) : "l"(a), "l"(b), "r"(accumulate));
}

// A block makes 64 * CONSUMERS rows by BN columns; warpgroup 0 loads, the others multiply.
template <int CONSUMERS, int BN, int STAGES>
__global__ void __launch_bounds__(128 * (CONSUMERS + 1), 1)
gemm(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ CUtensorMap w_map,
     const float* __restrict__ scale, __nv_bfloat16* __restrict__ y, int m, int n, int k) {
    constexpr int BM = 64 * CONSUMERS, A_BYTES = BM * BK, B_BYTES = BN * BK;
    extern __shared__ uint8_t raw[];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    uint8_t* tiles = raw + (1024 - address(raw) % 1024) % 1024;
    uint8_t* const a_tiles = tiles;
    uint8_t* const b_tiles = tiles + STAGES * A_BYTES;

    const int tiles_m = (m + BM - 1) / BM, tiles_n = (n + BN - 1) / BN;
    const int band = blockIdx.x / (GROUP * tiles_n), inside = blockIdx.x % (GROUP * tiles_n);
    const int height = min(tiles_m - band * GROUP, GROUP);
    const int row0 = (band * GROUP + inside % height) * BM, column0 = inside / height * BN;
    const int steps = (k + BK - 1) / BK;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(&full[s], 1);
            init(&empty[s], CONSUMERS);
        }
        asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
    }
    __syncthreads();

    const int group = threadIdx.x / 128;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;\n");
        if (threadIdx.x == 0) {
            for (int step = 0; step < steps; ++step) {
                const int s = step % STAGES;
                if (step >= STAGES) wait(&empty[s], (step / STAGES - 1) & 1);
                expect(&full[s], A_BYTES + B_BYTES);
                load(a_tiles + s * A_BYTES, &x_map, &full[s], step * BK, row0);
                load(b_tiles + s * B_BYTES, &w_map, &full[s], step * BK, column0);
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;\n");
    const int t = threadIdx.x % 128;
    float d[BN / 2];
    for (int step = 0; step < steps; ++step) {
        const int s = step % STAGES;
        wait(&full[s], (step / STAGES) & 1);
        asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
        #pragma unroll
        for (int i = 0; i < BK; i += 32) {
            product(d, describe(a_tiles + s * A_BYTES + (group - 1) * 64 * BK + i), describe(b_tiles + s * B_BYTES + i),
                    step + i > 0);
        }
        asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
        // The product of the step before is done: its stage may be filled again.
        asm volatile("wgmma.wait_group.sync.aligned 1;\n" ::: "memory");
        if (t == 0 && step > 0) arrive(&empty[(step - 1) % STAGES]);
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");

    const int row = row0 + (group - 1) * 64 + t / 32 * 16 + t % 32 / 4;
    #pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
        const int column = column0 + j * 8 + t % 4 * 2;
        const float s0 = column < n ? scale[column] : 0.f, s1 = column + 1 < n ? scale[column + 1] : 0.f;
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int r = row + half * 8;
            if (r >= m || column >= n) continue;
            __nv_bfloat16* to = y + size_t(r) * n + column;
            const __nv_bfloat162 pair = __floats2bfloat162_rn(d[j * 4 + half * 2] * s0, d[j * 4 + half * 2 + 1] * s1);
            if (n % 2 == 0) {
                *reinterpret_cast<__nv_bfloat162*>(to) = pair;
            } else {
                to[0] = pair.x;
                if (column + 1 < n) to[1] = pair.y;
            }
        }
    }
}

// padded[r] = source[r] followed by zeros; both in e4m3.
__global__ void pad_rows(const uint8_t* __restrict__ source, uint8_t* __restrict__ padded, int depth, int pitch) {
    const size_t row = blockIdx.x;
    for (int i = threadIdx.x * 4; i < pitch; i += blockDim.x * 4) {
        uint32_t word = 0;
        #pragma unroll
        for (int b = 0; b < 4; ++b) {
            if (i + b < depth) word |= uint32_t(source[row * depth + i + b]) << 8 * b;
        }
        *reinterpret_cast<uint32_t*>(padded + row * pitch + i) = word;
    }
}

static CUtensorMap describe_rows(const torch::Tensor& t, int box) {
    static void* encode = nullptr;
    if (encode == nullptr) {
        cudaDriverEntryPointQueryResult found;
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found);
        TORCH_CHECK(encode != nullptr, "the driver has no cuTensorMapEncodeTiled");
    }
    CUtensorMap map;
    const cuuint64_t sizes[2] = {cuuint64_t(t.size(1)), cuuint64_t(t.size(0))}, pitch[1] = {cuuint64_t(t.size(1))};
    const cuuint32_t boxes[2] = {BK, cuuint32_t(box)}, strides[2] = {1, 1};
    const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
        &map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, t.data_ptr(), sizes, pitch, boxes, strides,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    TORCH_CHECK(result == CUDA_SUCCESS, "the operand cannot be described to TMA");
    return map;
}

template <int CONSUMERS, int BN, int STAGES>
static void launch(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& scale, torch::Tensor& y) {
    const int m = x.size(0), n = weight.size(0), k = x.size(1);
    const int bytes = STAGES * (64 * CONSUMERS + BN) * BK + 1024;
    const int blocks = (m + 64 * CONSUMERS - 1) / (64 * CONSUMERS) * ((n + BN - 1) / BN);
    cudaFuncSetAttribute(gemm<CONSUMERS, BN, STAGES>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    gemm<CONSUMERS, BN, STAGES><<<blocks, 128 * (CONSUMERS + 1), bytes, at::cuda::getCurrentCUDAStream()>>>(
        describe_rows(x, 64 * CONSUMERS), describe_rows(weight, BN), scale.data_ptr<float>(),
        reinterpret_cast<__nv_bfloat16*>(y.data_ptr()), m, n, k);
    TORCH_CHECK(cudaGetLastError() == cudaSuccess, "the launch failed");
}

void fp8_gemm(torch::Tensor x, torch::Tensor weight, torch::Tensor scale, torch::Tensor y) {
    if (x.size(0) <= 64) {
        launch<1, 64, 12>(x, weight, scale, y);
    } else {
        launch<2, 256, 4>(x, weight, scale, y);
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


def build():
    """The compiled extension; torch keeps it, so a second call is quick."""
    return load_inline(
        name="kbh_fp8_gemm_cuda",
        cpp_sources=[_DECLARATIONS],
        cuda_sources=[SOURCE],
        functions=["fp8_gemm", "pad"],
        extra_cuda_cflags=["-O3", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a"],
    )


class Model(nn.Module):
    """y[M,N] bf16 = (x[M,K] e4m3 @ weight[N,K]^T e4m3) * weight_scale[N]."""

    def __init__(self, M: int, N: int, K: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N, dtype=torch.float32))
        self._extension = build()
        self._padded: torch.Tensor | None = None
        self._version: tuple[int, int] | None = None

    def _aligned(self, t: torch.Tensor) -> torch.Tensor:
        """`t` [rows, depth], or a copy whose rows start on 16 bytes, with zeros behind."""
        rows, depth = t.shape
        pitch = (depth + 15) // 16 * 16
        if pitch == depth:
            return t
        out = torch.empty((rows, pitch), dtype=t.dtype, device=t.device)
        self._extension.pad(t, out)
        return out

    def _aligned_weight(self) -> torch.Tensor:
        """The weight with aligned rows; made again whenever the buffer is another or was written to."""
        version = (self.weight.data_ptr(), self.weight._version)
        if self._version != version:
            self._padded = self._aligned(self.weight)
            self._version = version
        return self._padded

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty((x.shape[0], self.weight.shape[0]), dtype=torch.bfloat16, device=x.device)
        self._extension.fp8_gemm(self._aligned(x.contiguous()), self._aligned_weight(), self.weight_scale, y)
        return y
