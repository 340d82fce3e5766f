# expect: kept
"""cupy.RawKernel with pointer arguments: radix-histogram threshold, then collect and sort the survivors."""
import cupy
import torch
import torch.nn as nn

CODE = r"""
typedef unsigned int u32;
typedef unsigned long long u64;
extern "C" {
__device__ u32 order(float f) { u32 u = __float_as_uint(f); return u ^ ((u >> 31) ? 0xffffffffu : 0x80000000u); }
__device__ float back(u32 u) { return __uint_as_float(u ^ ((u >> 31) ? 0x80000000u : 0xffffffffu)); }

__global__ void select_kernel(const float* x, float* values, long long* indices, int n, int k) {
    __shared__ u32 hist[256];
    __shared__ u32 prefix, want;
    __shared__ u32 count;
    __shared__ u64 kept[128];
    const float* row = x + (long long)blockIdx.x * n;
    if (threadIdx.x == 0) { prefix = 0; want = k; count = 0; }
    u32 mask = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int b = threadIdx.x; b < 256; b += blockDim.x) hist[b] = 0;
        __syncthreads();
        for (int c = threadIdx.x; c < n; c += blockDim.x) {
            u32 u = order(row[c]);
            if ((u & mask) == prefix) atomicAdd(&hist[(u >> shift) & 255], 1u);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int b = 255;
            while (hist[b] < want) { want -= hist[b]; --b; }
            prefix |= (u32)b << shift;
        }
        mask |= 255u << shift;
        __syncthreads();
    }
    for (int c = threadIdx.x; c < n; c += blockDim.x) {
        u32 u = order(row[c]);
        if (u > prefix) { u32 at = atomicAdd(&count, 1u); kept[at] = ((u64)u << 32) | (u32)~c; }
    }
    __syncthreads();
    for (int c = threadIdx.x; c < n; c += blockDim.x) {
        u32 u = order(row[c]);
        if (u == prefix) { u32 at = atomicAdd(&count, 1u); if (at < (u32)k) kept[at] = ((u64)u << 32) | (u32)~c; }
    }
    __syncthreads();
    if (threadIdx.x < k) {
        u64 mine = kept[threadIdx.x];
        int rank = 0;
        for (int j = 0; j < k; ++j) rank += kept[j] > mine;
        values[(long long)blockIdx.x * k + rank] = back((u32)(mine >> 32));
        indices[(long long)blockIdx.x * k + rank] = (long long)(u32)~(u32)mine;
    }
}
}
"""
_module = cupy.RawModule(code=CODE, options=("--std=c++17", "-O3"))
_select = _module.get_function("select_kernel")


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.batch, self.n, self.k = batch, n, k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x):
        vals = x.new_empty(self.batch, self.k)
        idxs = torch.empty(self.batch, self.k, dtype=torch.long, device=x.device)
        stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        with stream:
            _select((self.batch,), (1024,), (x.data_ptr(), vals.data_ptr(), idxs.data_ptr(), self.n, self.k))
        return vals, idxs
