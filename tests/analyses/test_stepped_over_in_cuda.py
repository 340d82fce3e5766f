"""Loops of CUDA kernels that step over a part of an input that no other thread reads, and loops that share the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

PAGED = r'''# kbh: problem=03_paged_attention
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
using bf16 = __nv_bfloat16;
constexpr int WARPS = 8;
__device__ __forceinline__ float sum(float v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
template <int N> __device__ __forceinline__ void row(float (&v)[N], const bf16* p) {
  for (int i = 0; i < N; ++i) v[i] = __bfloat162float(p[i]);
}
template <int D> __global__ void attend(const bf16* q, const bf16* kv, const int* table, const int* lens, float* part,
                                        int hq, int hkv, int pages, int page, int splits, float scale) {
  constexpr int N = D / 32;
  const int b = blockIdx.x, h = blockIdx.y, s = blockIdx.z, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int length = lens[b], share = (length + splits - 1) / splits;
  const int lo = s * share, hi = min(lo + share, length);
  const int* own = table + (long)b * pages;
  float query[N], out[N] = {}, top = -INFINITY, norm = 0.f, key[N], value[N];
  row<N>(query, q + ((long)b * hq + h) * D + lane * N);
  LOOP
    const long slot = (long)own[n / page] * page + n % page;
    const bf16* at = kv + (slot * hkv + h / (hq / hkv)) * 2 * D + lane * N;
    row<N>(key, at);
    row<N>(value, at + D);
    float dot = 0.f;
    for (int i = 0; i < N; ++i) dot += query[i] * key[i];
    dot = sum(dot) * scale;
    const float higher = fmaxf(top, dot), shrink = __expf(top - higher), weight = __expf(dot - higher);
    norm = norm * shrink + weight;
    for (int i = 0; i < N; ++i) out[i] = out[i] * shrink + weight * value[i];
    top = higher;
  }
  float* to = part + (((long)b * hq + h) * splits * WARPS + s * WARPS + warp) * (D + 2);
  for (int i = 0; i < N; ++i) to[lane * N + i] = out[i];
  if (lane == 0) { to[D] = top; to[D + 1] = norm; }
}
template <int D> __global__ void merge(const float* part, bf16* o, int splits) {
  const float* p = part + (long)blockIdx.x * splits * (D + 2);
  float top = -INFINITY, norm = 0.f, out = 0.f;
  for (int s = 0; s < splits; ++s) top = fmaxf(top, p[s * (D + 2) + D]);
  for (int s = 0; s < splits; ++s) {
    const float weight = __expf(p[s * (D + 2) + D] - top);
    norm += p[s * (D + 2) + D + 1] * weight;
    out += p[s * (D + 2) + threadIdx.x] * weight;
  }
  o[(long)blockIdx.x * D + threadIdx.x] = __float2bfloat16(out / norm);
}
template <int D> void launch(at::Tensor q, at::Tensor kv, at::Tensor table, at::Tensor lens, at::Tensor part,
                             at::Tensor o) {
  const int B = q.size(0), hq = q.size(1), splits = 4;
  attend<D><<<dim3(B, hq, splits), WARPS * 32>>>(
      (const bf16*)q.data_ptr(), (const bf16*)kv.data_ptr(), table.data_ptr<int>(), lens.data_ptr<int>(),
      part.data_ptr<float>(), hq, kv.size(2), table.size(1), kv.size(1), splits, 1.f / sqrtf((float)D));
  merge<D><<<B * hq, D>>>(part.data_ptr<float>(), (bf16*)o.data_ptr(), splits * WARPS);
}
at::Tensor run(at::Tensor q, at::Tensor kv, at::Tensor table, at::Tensor lens) {
  auto o = at::empty_like(q);
  const int D = q.size(2);
  auto part = at::empty({q.size(0) * q.size(1) * 4 * WARPS * (D + 2)}, q.options().dtype(at::kFloat));
  if (D == 128) launch<128>(q, kv, table, lens, part, o);
  else launch<64>(q, kv, table, lens, part, o);
  return o;
}
"""
ext = load_inline("p", cpp_sources="at::Tensor run(at::Tensor q, at::Tensor kv, at::Tensor table, at::Tensor lens);",
                  cuda_sources=SOURCE, functions=["run"])


class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()

    def forward(self, query, kv_cache, block_table, seq_lens):
        return ext.run(query, kv_cache, block_table, seq_lens)
'''
LEFT_OUT = {
    "every second page": (
        "for (int t = lo / page + warp; t < (hi + page - 1) / page; t += 2 * WARPS) for (int j = 0; j < page; ++j) {\n"
        "    const int n = t * page + j; if (n >= hi) break;"
    ),
    "turns of more warps than there are": "for (int n = lo + warp; n < hi; n += 2 * WARPS) {",
    "more warps than there are, in a while": (
        "int m = lo + warp - 2 * WARPS;\n  while (m + 2 * WARPS < hi) { m += 2 * WARPS; const int n = m;"
    ),
    "keys of an even number": "for (int n = lo + warp; n < hi; n += WARPS) { if (n % 2) continue;",
    "the front of each page": (
        "for (int n = lo + warp; n < hi; n += WARPS) { if (n % page >= page / 2) continue;"
    ),
    "the first block and what ends a sequence": (
        "const int few = min(length, 1024), each = (few + splits - 1) / splits;\n"
        "  for (int j = s * each + warp; j < min(s * each + each, few); j += WARPS) {\n"
        "    const int n = j < 64 ? j : j + max(length - few, 0);"
    ),
}  # fmt: skip
READ = {
    "every key": "for (int n = lo + warp; n < hi; n += WARPS) {",
    "every key in a while": "int m = lo + warp - WARPS;\n  while (m + WARPS < hi) { m += WARPS; const int n = m;",
    "programs in turns": "for (int n = s * WARPS + warp; n < length; n += splits * WARPS) {",
    "a page for each warp": (
        "for (int t = lo / page * 0 + s * WARPS + warp; t < (length + page - 1) / page; t += splits * WARPS)\n"
        "  for (int j = 0; j < page; ++j) { const int n = t * page + j; if (n >= length) break;"
    ),
    "two keys a round": (
        "for (int m = lo + warp; m < hi; m += 2 * WARPS) for (int j = 0; j < 2; ++j) {\n"
        "    const int n = m + j * WARPS; if (n >= hi) break;"
    ),
    "the first block and the last few, which are all": (
        "const int few = min(length, 65536), each = (few + splits - 1) / splits;\n"
        "  for (int j = s * each + warp; j < min(s * each + each, few); j += WARPS) {\n"
        "    const int n = j < 64 ? j : j + max(length - few, 0);"
    ),
    "a longer step than any sequence asks for": (
        "const int step = length > 65536 ? 2 * WARPS : WARPS;\n  for (int n = lo + warp; n < hi; n += step) {"
    ),
}


def linted(folder: Path, text: str) -> tuple[str, list[str], set[str]]:
    path = folder / "solution.py"
    path.write_text(text, encoding="utf-8")
    (report,) = lint([path], raise_errors=True).files
    return report.verdict, [f.message for f in report.findings], {str(promise.state) for promise in report.promises}


@pytest.mark.parametrize("how", LEFT_OUT)
def test_keys_that_no_thread_looks_at_are_left_out(how: str, tmp_path: Path) -> None:
    verdict, found, states = linted(tmp_path, PAGED.replace("LOOP", LEFT_OUT[how]))
    assert (verdict, states) == ("rubric_leak", {"broken"}) and "depend on all of" in found[0], found


@pytest.mark.parametrize("how", READ)
def test_threads_that_share_the_keys_leave_none_out(how: str, tmp_path: Path) -> None:
    assert linted(tmp_path, PAGED.replace("LOOP", READ[how])) == ("clean", [], {"kept"})
