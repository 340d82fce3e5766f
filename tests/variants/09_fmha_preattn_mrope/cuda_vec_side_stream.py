# expect: kept
"""16-byte CUDA kernel over bf162 pairs; k runs on a side stream with events; a fused fp32 table, rebuilt by version."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>

union Vec { uint4 raw; __nv_bfloat162 h[4]; };

template <int D>
__global__ void rot(const uint4* __restrict__ x, uint4* __restrict__ y, const float2* __restrict__ table,
                    const int64_t* __restrict__ pt, const int64_t* __restrict__ ph, const int64_t* __restrict__ pw,
                    int T, int H, int s0, int s1) {
  constexpr int HALF = D / 16;
  int row = blockIdx.x, lane = threadIdx.x % HALF, head = threadIdx.x / HALF + blockIdx.y * (blockDim.x / HALF);
  if (head >= H) return;
  int64_t p[3] = {__ldg(pt + row), __ldg(ph + row), __ldg(pw + row)};
  size_t src = ((size_t)row * H + head) * (D / 8);
  size_t dst = (((size_t)(row / T) * H + head) * T + row % T) * (D / 8);
  Vec a, b, ra, rb;
  a.raw = __ldcs(x + src + lane);
  b.raw = __ldcs(x + src + HALF + lane);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float2 fa = __bfloat1622float2(a.h[i]), fb = __bfloat1622float2(b.h[i]);
    float ox[2], oy[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      int c = lane * 8 + i * 2 + j;
      int axis = c < s0 ? 0 : c < s0 + s1 ? 1 : 2;
      float2 cs = __ldg(table + p[axis] * (D / 2) + c);
      float u = j ? fa.y : fa.x, v = j ? fb.y : fb.x;
      ox[j] = u * cs.x - v * cs.y;
      oy[j] = v * cs.x + u * cs.y;
    }
    ra.h[i] = __floats2bfloat162_rn(ox[0], ox[1]);
    rb.h[i] = __floats2bfloat162_rn(oy[0], oy[1]);
  }
  __stcs(y + dst + lane, ra.raw);
  __stcs(y + dst + HALF + lane, rb.raw);
}

at::Tensor rope(at::Tensor x, at::Tensor table, at::Tensor pt, at::Tensor ph, at::Tensor pw, int64_t s0, int64_t s1) {
  const int B = x.size(0), T = x.size(1), H = x.size(2), D = x.size(3);
  auto y = at::empty({B, H, T, D}, x.options());
  auto go = [&](auto tag) {
    constexpr int DD = decltype(tag)::value;
    constexpr int per = 256 / (DD / 16);
    rot<DD><<<dim3(B * T, (H + per - 1) / per), 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        (const uint4*)x.data_ptr(), (uint4*)y.data_ptr(), (const float2*)table.data_ptr(), pt.data_ptr<int64_t>(),
        ph.data_ptr<int64_t>(), pw.data_ptr<int64_t>(), T, H, (int)s0, (int)s1);
  };
  if (D == 128) go(std::integral_constant<int, 128>{});
  else go(std::integral_constant<int, 64>{});
  return y;
}
"""
ext = load_inline(
    "mrope_vec",
    "at::Tensor rope(at::Tensor x, at::Tensor table, at::Tensor pt, at::Tensor ph, at::Tensor pw, int64_t s0, int64_t s1);",
    CUDA, functions=["rope"], extra_cuda_cflags=["-O3", "-std=c++17"],
)


class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.section = tuple(mrope_section)
        inv = 1.0 / (10000.0 ** (torch.arange(0, D, 2).float() / D))
        emb = torch.outer(torch.arange(max_pos).float(), inv).repeat(1, 2)
        self.register_buffer("cos_cache", emb.cos().to(torch.bfloat16))
        self.register_buffer("sin_cache", emb.sin().to(torch.bfloat16))

        self._cached = (None, None)
        self._side = None

    def _table(self):
        stamp = (self.cos_cache._version, self.sin_cache._version, self.cos_cache.data_ptr(), self.sin_cache.data_ptr())
        if self._cached[0] != stamp:
            half = self.cos_cache.shape[1] // 2
            table = torch.stack((self.cos_cache[:, :half].float(), self.sin_cache[:, :half].float()), -1).contiguous()
            self._cached = (stamp, table)
        return self._cached[1]

    def forward(self, q, k, pos_t, pos_h, pos_w):
        table = self._table()
        if self._side is None:
            self._side = torch.cuda.Stream()
        main = torch.cuda.current_stream()
        fork, join = torch.cuda.Event(), torch.cuda.Event()
        fork.record(main)
        with torch.cuda.stream(self._side):
            self._side.wait_event(fork)
            ko = ext.rope(k, table, pos_t, pos_h, pos_w, *self.section[:2])
            join.record(self._side)
        qo = ext.rope(q, table, pos_t, pos_h, pos_w, *self.section[:2])
        main.wait_event(join)
        return qo, ko
