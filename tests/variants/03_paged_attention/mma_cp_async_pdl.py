# expect: kept
"""Split-KV decode with cp.async, ldmatrix and mma.m16n8k16; the merge starts early through a programmatic launch."""
import math

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

using bf16 = __nv_bfloat16;

#define CP_ASYNC_16(dst, src) \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(dst), "l"(src))
#define CP_COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define CP_WAIT(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

__device__ __forceinline__ uint32_t smem_addr(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void ldsm4(uint32_t (&r)[4], uint32_t a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
}
__device__ __forceinline__ void ldsm2t(uint32_t (&r)[2], uint32_t a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n" : "=r"(r[0]), "=r"(r[1]) : "r"(a));
}
__device__ __forceinline__ void ldsm2(uint32_t (&r)[2], uint32_t a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];\n" : "=r"(r[0]), "=r"(r[1]) : "r"(a));
}
__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ uint32_t pack2(float lo, float hi) {
  __nv_bfloat162 t = __floats2bfloat162_rn(lo, hi);
  return *reinterpret_cast<uint32_t*>(&t);
}

template <int D, int PAGE>
__global__ void __launch_bounds__(32) attend(const bf16* __restrict__ q, const bf16* __restrict__ kv,
                                             const int* __restrict__ table, const int* __restrict__ lens,
                                             float* __restrict__ po, float2* __restrict__ pml, int heads, int hkv,
                                             int pages, int per_split, float scale) {
  constexpr int LD = D + 8;
  __shared__ __align__(16) bf16 sq[16 * LD];
  __shared__ __align__(16) bf16 sk[2][PAGE * LD];
  __shared__ __align__(16) bf16 sv[2][PAGE * LD];
  const int split = blockIdx.x, kvh = blockIdx.y, b = blockIdx.z, lane = threadIdx.x;
  const int group = heads / hkv;
  const int len = lens[b];
  const int p0 = split * per_split, p1 = min((len + PAGE - 1) / PAGE, p0 + per_split);
  for (int i = lane; i < 16 * D / 8; i += 32) {
    int r = i / (D / 8), c = (i % (D / 8)) * 8;
    uint4 z = make_uint4(0, 0, 0, 0);
    if (r < group) z = *reinterpret_cast<const uint4*>(q + ((size_t)b * heads + kvh * group + r) * D + c);
    *reinterpret_cast<uint4*>(&sq[r * LD + c]) = z;
  }
  auto fetch = [&](int p, int slot) {
    const bf16* base = kv + (size_t)table[b * pages + p] * PAGE * hkv * 2 * D + (size_t)kvh * 2 * D;
    for (int i = lane; i < PAGE * D / 8; i += 32) {
      int t = i / (D / 8), c = (i % (D / 8)) * 8;
      const bf16* row = base + (size_t)t * hkv * 2 * D + c;
      CP_ASYNC_16(smem_addr(&sk[slot][t * LD + c]), row);
      CP_ASYNC_16(smem_addr(&sv[slot][t * LD + c]), row + D);
    }
    CP_COMMIT();
  };
  float o[D / 8][4] = {};
  float m[2] = {-INFINITY, -INFINITY}, l[2] = {0.f, 0.f};
  if (p0 < p1) fetch(p0, 0);
  for (int p = p0; p < p1; ++p) {
    int slot = (p - p0) & 1;
    if (p + 1 < p1) { fetch(p + 1, slot ^ 1); CP_WAIT(1); } else { CP_WAIT(0); }
    __syncwarp();
    float s[PAGE / 8][4] = {};
#pragma unroll
    for (int kk = 0; kk < D / 16; ++kk) {
      uint32_t a[4];
      ldsm4(a, smem_addr(&sq[(lane & 15) * LD + kk * 16 + (lane >> 4) * 8]));
#pragma unroll
      for (int n = 0; n < PAGE / 8; ++n) {
        uint32_t bfr[2];
        ldsm2(bfr, smem_addr(&sk[slot][(n * 8 + (lane & 7)) * LD + kk * 16 + ((lane >> 3) & 1) * 8]));
        mma_bf16(s[n], a, bfr);
      }
    }
    float mx[2] = {m[0], m[1]};
#pragma unroll
    for (int n = 0; n < PAGE / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        int pos = p * PAGE + n * 8 + (lane & 3) * 2 + (e & 1);
        s[n][e] = pos < len ? s[n][e] * scale : -INFINITY;
        mx[e >> 1] = fmaxf(mx[e >> 1], s[n][e]);
      }
    for (int h = 0; h < 2; ++h) {
      mx[h] = fmaxf(mx[h], __shfl_xor_sync(~0u, mx[h], 1));
      mx[h] = fmaxf(mx[h], __shfl_xor_sync(~0u, mx[h], 2));
      float alpha = exp2f(m[h] - mx[h]);
      l[h] *= alpha;
      m[h] = mx[h];
      for (int d = 0; d < D / 8; ++d) { o[d][2 * h] *= alpha; o[d][2 * h + 1] *= alpha; }
    }
    uint32_t pa[4];
#pragma unroll
    for (int n = 0; n < PAGE / 8; ++n) {
      for (int e = 0; e < 4; ++e) { s[n][e] = exp2f(s[n][e] - m[e >> 1]); l[e >> 1] += s[n][e]; }
      pa[n * 2] = pack2(s[n][0], s[n][1]);
      pa[n * 2 + 1] = pack2(s[n][2], s[n][3]);
    }
#pragma unroll
    for (int d = 0; d < D / 8; ++d) {
      uint32_t bfr[2];
      ldsm2t(bfr, smem_addr(&sv[slot][(lane & 15) * LD + d * 8]));
      mma_bf16(o[d], pa, bfr);
    }
    __syncwarp();
  }
  for (int h = 0; h < 2; ++h) {
    l[h] += __shfl_xor_sync(~0u, l[h], 1);
    l[h] += __shfl_xor_sync(~0u, l[h], 2);
    int r = (lane >> 2) + h * 8;
    if (r >= group) continue;
    size_t at = ((size_t)b * heads + kvh * group + r) * gridDim.x + split;
    if ((lane & 3) == 0) pml[at] = make_float2(m[h], l[h]);
    for (int d = 0; d < D / 8; ++d)
      *reinterpret_cast<float2*>(po + at * D + d * 8 + (lane & 3) * 2) = make_float2(o[d][2 * h], o[d][2 * h + 1]);
  }
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

template <int D>
__global__ void merge(const float* __restrict__ po, const float2* __restrict__ pml, bf16* __restrict__ out, int splits) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  size_t row = blockIdx.x;
  float m = -INFINITY;
  for (int s = 0; s < splits; ++s) m = fmaxf(m, pml[row * splits + s].x);
  float l = 0.f, acc = 0.f;
  for (int s = 0; s < splits; ++s) {
    float2 ml = pml[row * splits + s];
    float w = exp2f(ml.x - m);
    l += ml.y * w;
    acc += po[(row * splits + s) * D + threadIdx.x] * w;
  }
  out[row * D + threadIdx.x] = __float2bfloat16(acc / l);
}

template <int D, int PAGE>
void launch(const at::Tensor& q, const at::Tensor& kv, const at::Tensor& table, const at::Tensor& lens, at::Tensor& po,
            at::Tensor& pml, at::Tensor& out, int splits, float scale) {
  auto stream = at::cuda::getCurrentCUDAStream();
  int B = q.size(0), H = q.size(1), G = kv.size(2), pages = table.size(1);
  attend<D, PAGE><<<dim3(splits, G, B), 32, 0, stream>>>(
      (const bf16*)q.data_ptr(), (const bf16*)kv.data_ptr(), table.data_ptr<int>(), lens.data_ptr<int>(),
      po.data_ptr<float>(), (float2*)pml.data_ptr<float>(), H, G, pages, (pages + splits - 1) / splits, scale);
  cudaLaunchConfig_t cfg = {};
  cfg.gridDim = dim3(B * H);
  cfg.blockDim = dim3(D);
  cfg.stream = stream;
  cudaLaunchAttribute attr[1];
  attr[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attr[0].val.programmaticStreamSerializationAllowed = 1;
  cfg.attrs = attr;
  cfg.numAttrs = 1;
  cudaLaunchKernelEx(&cfg, merge<D>, (const float*)po.data_ptr<float>(), (const float2*)pml.data_ptr<float>(),
                     reinterpret_cast<bf16*>(out.data_ptr<at::BFloat16>()), splits);
}

void decode(at::Tensor q, at::Tensor kv, at::Tensor table, at::Tensor lens, at::Tensor po, at::Tensor pml, at::Tensor out,
            int64_t splits, double scale) {
  TORCH_CHECK(kv.size(1) == 16, "page size");
  switch (q.size(2)) {
    case 64: launch<64, 16>(q, kv, table, lens, po, pml, out, splits, scale); break;
    case 128: launch<128, 16>(q, kv, table, lens, po, pml, out, splits, scale); break;
    default: TORCH_CHECK(false, "head dim");
  }
}
"""
CPP = """void decode(at::Tensor q, at::Tensor kv, at::Tensor table, at::Tensor lens, at::Tensor po, at::Tensor pml,
at::Tensor out, int64_t splits, double scale);"""

_mod = None


def mod():
    global _mod
    if _mod is None:
        _mod = load_inline(
            name="paged_mma", cpp_sources=CPP, cuda_sources=CUDA, functions=["decode"],
            extra_cuda_cflags=["-O3", "--use_fast_math", "-gencode=arch=compute_90a,code=sm_90a"],
        )
    return _mod


class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()
        self.H, self.D = num_heads, head_dim
        self.scale = math.log2(math.e) / math.sqrt(head_dim)
        pages = -(-seq_len // page_size)
        want = max(1, 132 * 8 // (batch * num_kv_heads))
        self.splits = min(want, pages, 64)
        self.register_buffer("_dummy", torch.zeros(1, dtype=torch.bfloat16), persistent=False)
        self._ws = {}

    def _workspace(self, batch, device):
        key = (batch, device)
        ws = self._ws.get(key)
        if ws is None:
            n = batch * self.H * self.splits
            ws = (torch.empty(n * self.D, device=device), torch.empty(n * 2, device=device))
            self._ws[key] = ws
        return ws

    def forward(self, query, kv_cache, block_table, seq_lens):
        po, pml = self._workspace(query.shape[0], query.device)
        out = torch.empty_like(query)
        mod().decode(query, kv_cache, block_table, seq_lens, po, pml, out, self.splits, self.scale)
        return out
