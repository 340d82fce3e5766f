"""Sums of values that are weighted by what products made, one multiply-add after another, in a narrow type or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

TEXT = '''# kbh: problem=03_paged_attention
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
using bf16 = __nv_bfloat16;

template <int D>
__global__ void decode(const bf16* query, const bf16* cache, const int* table, const int* lengths, bf16* out, int heads,
                       int kv_heads, int page, int width, float scale) {
  __shared__ float sums[D];
  __shared__ float score;
  const int head = blockIdx.x, b = blockIdx.y, d = threadIdx.x, kv = head / (heads / kv_heads);
  const float q = __bfloat162float(query[((size_t)b * heads + head) * D + d]) * scale;
  float top = -INFINITY, below = 0.f;
  BEGIN
  for (int token = 0; token < lengths[b]; ++token) {
    const size_t row = (((size_t)table[b * width + token / page] * page + token % page) * kv_heads + kv) * 2 * D;
    sums[d] = q * __bfloat162float(cache[row + d]);
    __syncthreads();
    if (d == 0) {
      float sum = 0.f;
      for (int i = 0; i < D; ++i) sum += sums[i];
      score = sum;
    }
    __syncthreads();
    const float high = fmaxf(top, score), fade = expf(top - high), weight = expf(score - high);
    top = high;
    below = below * fade + weight;
    const bf16 value = cache[row + D + d];
    ROUND
  }
  out[((size_t)b * heads + head) * D + d] = __float2bfloat16(float(END) / below);
}
torch::Tensor run(torch::Tensor query, torch::Tensor cache, torch::Tensor table, torch::Tensor lengths) {
  auto out = torch::empty_like(query);
  const int B = query.size(0), heads = query.size(1), D = query.size(2), kv_heads = cache.size(2);
  dim3 grid(heads, B);
  auto kernel = D == 128 ? decode<128> : decode<64>;
  kernel<<<grid, D>>>((const bf16*)query.data_ptr(), (const bf16*)cache.data_ptr(), table.data_ptr<int>(),
      lengths.data_ptr<int>(), (bf16*)out.data_ptr(), heads, kv_heads, cache.size(1), table.size(1), rsqrtf(D));
  return out;
}
"""
built = load_inline(
    name="weighted", cpp_sources="torch::Tensor run(torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor);",
    cuda_sources=SOURCE, functions=["run"],
)


class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()

    def forward(self, query, kv_cache, block_table, seq_lens):
        return built.run(query, kv_cache, block_table, seq_lens)
'''
W, FADE = "__float2half(weight)", "__float2half(fade)"
V = "__float2half(__bfloat162float(value))"
NARROW = {
    "by multiply-adds": ("half acc = 0.f;", f"acc = __hmul(acc, {FADE}); acc = __hfma({W}, {V}, acc);", "acc"),
    "of an array": (
        "half acc[1] = {0.f};",
        f"for (int g = 0; g < 1; ++g) {{ acc[g] = __hmul(acc[g], {FADE}); acc[g] = __hfma({W}, {V}, acc[g]); }}",
        "acc[0]",
    ),
    "at once": ("half acc = 0.f;", f"acc = __hfma({W}, {V}, __hmul(acc, {FADE}));", "acc"),
    "by a product and a sum": ("half acc = 0.f;", f"acc = __hadd(__hmul(acc, {FADE}), __hmul({W}, {V}));", "acc"),
    "rounded in each step": (
        "bf16 acc = 0.f;",
        "acc = __float2bfloat16(__bfloat162float(acc) * fade + weight * __bfloat162float(value));",
        "acc",
    ),
}
WIDE = {
    "by multiply-adds": ("float acc = 0.f;", "acc *= fade; acc = fmaf(weight, __bfloat162float(value), acc);", "acc"),
    "of products in 16 bits": ("float acc = 0.f;", f"acc = acc * fade + __half2float(__hmul({W}, {V}));", "acc"),
    "of one product": (
        "float acc = 0.f;",
        f"half one = 0.f; one = __hfma({W}, {V}, one); acc = acc * fade + __half2float(one);",
        "acc",
    ),
    "with a copy in 16 bits": (
        "float acc = 0.f; half seen = 0.f;",
        "acc = fmaf(weight, __bfloat162float(value), acc * fade); seen = __float2half(acc);",
        "acc",
    ),
}


def rules_of(tmp_path: Path, begin: str, step: str, end: str) -> set[str]:
    text = TEXT.replace("BEGIN", begin).replace("ROUND", step).replace("END", end)
    return {finding.rule for finding in report_of(tmp_path, text).findings}


@pytest.mark.parametrize("begin, step, end", NARROW.values(), ids=NARROW)
def test_values_that_are_summed_in_16_bits_are_told(tmp_path: Path, begin: str, step: str, end: str) -> None:
    assert rules_of(tmp_path, begin, step, end) == {"KBH404"}


@pytest.mark.parametrize("begin, step, end", WIDE.values(), ids=WIDE)
def test_values_that_are_summed_in_fp32_are_not(tmp_path: Path, begin: str, step: str, end: str) -> None:
    assert rules_of(tmp_path, begin, step, end) == set()
