"""A total of products that shared memory of a CUDA kernel keeps from round to round, in 16 bits or in fp32."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

TEXT = '''# kbh: problem=02_kda_cutlass
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
using bf16 = __nv_bfloat16;
constexpr int TILE = 256, LD = 20;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::col_major> Left;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> Right;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> Acc;
struct Shared {
  bf16 state[TILE], low[TILE], seen[TILE], powers[TILE], next[TILE], tiles[4 * TILE];
  float wide[2 * TILE], stage[16 * LD];
};
FUNCTIONS
__device__ void multiply(Acc& f, const bf16* a, const bf16* b, int H) {
  Left left; Right right;
  wmma::load_matrix_sync(left, a, H);
  wmma::load_matrix_sync(right, b, H);
  wmma::mma_sync(f, left, right, f);
}
__global__ void kernel(const bf16* q, const bf16* k, const bf16* v, const float* g, bf16* out, int T, int H) {
  extern __shared__ __align__(128) unsigned char raw[];
  Shared& s = *(Shared*)raw;
  const int lane = threadIdx.x;
  EACH s.state[e] = bf16(0.f);
  __syncthreads();
  BEGIN
  for (int t = 0; t < T; t += 16) {
    const bf16 *left = k + (size_t)t * H, *right = v + (size_t)t * H;
    const float fade = __expf(g[t * H]);
    ROUND
    __syncthreads();
  }
  EACH out[e] = END;
}
torch::Tensor run(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor g, torch::Tensor out) {
  kernel<<<1, 32, sizeof(Shared)>>>((const bf16*)q.data_ptr(), (const bf16*)k.data_ptr(), (const bf16*)v.data_ptr(),
      g.data_ptr<float>(), (bf16*)out.data_ptr(), q.size(1), q.size(2) * 128);
  return out;
}
"""
built = load_inline(
    name="kept", cuda_sources=SOURCE, functions=["run"],
    cpp_sources="torch::Tensor run(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor g, torch::Tensor);",
)


class Model(nn.Module):
    def __init__(self, B, T, H, K, V, chunk_size):
        super().__init__()

    def forward(self, q, k, v, g, beta):
        return built.run(q, k, v, g, torch.empty_like(v))
'''
EACH = "for (int e = lane; e < TILE; e += 32)"
AT = "(e / 16) * LD + e % 16"
STAGED = f"{EACH} s.stage[{AT}] = fade * __bfloat162float(s.state[e]); __syncwarp();"
LOADED = "Acc f; wmma::load_matrix_sync(f, s.stage, LD, wmma::mem_row_major);"
FILLED = "Acc f; wmma::fill_fragment(f, 0.f);"
MULTIPLIED = "multiply(f, left, right, H);"
LEFT = "wmma::store_matrix_sync(s.stage, f, LD, wmma::mem_row_major); __syncwarp();"
ROUNDED = f"{EACH} s.state[e] = __float2bfloat16(s.stage[{AT}]);"
STATE = "s.state[e]"
PUT = """
__device__ __forceinline__ void put(Acc& f, float* stage, bf16* to) {
  wmma::store_matrix_sync(stage, f, LD, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < TILE / 2; i += 32) {
    const int r = i / 8, c = i % 8 * 2;
    *(__nv_bfloat162*)(to + r * 16 + c) = __floats2bfloat162_rn(stage[r * LD + c], stage[r * LD + c + 1]);
  }
}
__device__ __forceinline__ void take(float* stage, const bf16* from, float fade) {
  for (int e = threadIdx.x; e < TILE; e += 32) stage[(e / 16) * LD + e % 16] = fade * __bfloat162float(from[e]);
  __syncwarp();
}
"""
MMA = """
__device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9},"
               " {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
"""
OPERANDS = (
    "unsigned a[4], b[2]; for (int i = 0; i < 4; ++i) a[i] = ((const unsigned*)left)[i * 32 + lane];"
    " for (int i = 0; i < 2; ++i) b[i] = ((const unsigned*)right)[i * 32 + lane];"
)
JOBS = "for (int job = 0; job < 4; ++job) {{ take(s.stage, {at}, fade); {loaded} {multiplied} put(f, s.stage, {at}); }}"
NARROW = {
    "an accumulator from a stage": ("", "", f"{STAGED} {LOADED} {MULTIPLIED} {LEFT} {ROUNDED}", STATE),
    "a sum behind the product": (
        "",
        "",
        f"{FILLED} {MULTIPLIED} {LEFT} {EACH} {{ const float old = __bfloat162float(s.state[e]) * fade;"
        f" s.state[e] = __float2bfloat16(old + s.stage[{AT}]); }}",
        STATE,
    ),
    "by functions": (PUT, "", f"take(s.stage, s.state, fade); {LOADED} {MULTIPLIED} put(f, s.stage, s.state);", STATE),
    "in tiles": (PUT, "", JOBS.format(at="s.tiles + job * TILE", loaded=LOADED, multiplied=MULTIPLIED), "s.tiles[e]"),
    "through another array": (
        "",
        "",
        f"{STAGED} {LOADED} {MULTIPLIED} {LEFT} {EACH} s.next[e] = __float2bfloat16(s.stage[{AT}]);"
        f" __syncwarp(); {EACH} s.state[e] = s.next[e];",
        STATE,
    ),
    "rounded, held in fp32": (
        "",
        f"{EACH} s.wide[e] = 0.f;",
        f"{FILLED} {MULTIPLIED} {LEFT} {EACH} {{ s.wide[e] = s.wide[e] * fade + s.stage[{AT}];"
        " s.wide[e] = __bfloat162float(__float2bfloat16(s.wide[e])); }",
        "bf16(s.wide[e])",
    ),
    "begun in the first round": (
        "",
        "",
        f"if (t == 0) {{ {EACH} s.state[e] = bf16(0.f); }} {STAGED} {LOADED} {MULTIPLIED} {LEFT} {ROUNDED}",
        STATE,
    ),
    "begun by what is left of the product": (
        "",
        "",
        f"{FILLED} {MULTIPLIED} {LEFT} if (t == 0) {{ {ROUNDED} }} else {{ {EACH}"
        f" s.state[e] = bf16(float(s.state[e]) + s.stage[{AT}]); }}",
        STATE,
    ),
    "registers of an instruction": (
        MMA,
        "__nv_bfloat162 held[2]; held[0] = held[1] = __floats2bfloat162_rn(0.f, 0.f);",
        f"{OPERANDS} float d[4]; for (int i = 0; i < 2; ++i) {{ d[2 * i] = fade * __low2float(held[i]);"
        " d[2 * i + 1] = fade * __high2float(held[i]); } mma(d, a, b);"
        " for (int i = 0; i < 2; ++i) held[i] = __floats2bfloat162_rn(d[2 * i], d[2 * i + 1]);",
        "__low2bfloat16(held[0])",
    ),
    "registers of an instruction, packed": (
        MMA,
        "unsigned held[2] = {0u, 0u};",
        f"{OPERANDS} float d[4]; for (int i = 0; i < 2; ++i) {{"
        " const float2 two = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162*>(&held[i]));"
        " d[2 * i] = fade * two.x; d[2 * i + 1] = fade * two.y; } mma(d, a, b); for (int i = 0; i < 2; ++i) {"
        " __nv_bfloat162 two = __floats2bfloat162_rn(d[2 * i], d[2 * i + 1]);"
        " held[i] = *reinterpret_cast<unsigned*>(&two); }",
        "reinterpret_cast<bf16*>(held)[0]",
    ),
    "by plain loops": (
        "",
        "",
        f"{EACH} {{ float sum = fade * float(s.state[e]);"
        " for (int j = 0; j < 16; ++j) sum += float(left[j * H + e / 16]) * float(right[j * H + e % 16]);"
        " s.state[e] = bf16(sum); }",
        STATE,
    ),
    "weighted, by plain loops": (
        "",
        "",
        f"{FILLED} {MULTIPLIED} {LEFT} {EACH} {{ float sum = fade * float(s.state[e]);"
        f" for (int j = 0; j < 16; ++j) sum += float(left[j]) * s.stage[j * LD + e % 16]; s.state[e] = bf16(sum); }}",
        STATE,
    ),
}  # fmt: skip
WIDE = {
    "fp32 with a copy that products read": (
        "",
        f"{EACH} s.wide[e] = 0.f;",
        f"Acc o; wmma::fill_fragment(o, 0.f); multiply(o, q + (size_t)t * H, s.seen, 16);"
        f" {EACH} s.stage[{AT}] = fade * s.wide[e]; {LOADED} {MULTIPLIED} {LEFT}"
        f" {EACH} {{ s.wide[e] = s.stage[{AT}]; s.seen[e] = __float2bfloat16(s.wide[e]); }}",
        "bf16(s.wide[e])",
    ),
    "two buffers of fp32": (
        "",
        f"{EACH} s.wide[e] = s.wide[TILE + e] = 0.f; int at = 0;",
        f"{EACH} s.stage[{AT}] = fade * s.wide[at * TILE + e]; {LOADED} {MULTIPLIED} {LEFT} at ^= 1;"
        f" {EACH} s.wide[at * TILE + e] = s.stage[{AT}];",
        "bf16(s.wide[e])",
    ),
    "an output of each round": (PUT, "", f"{FILLED} {MULTIPLIED} put(f, s.stage, s.state);", STATE),
    "an output of each tile": (
        "",
        "",
        f"{EACH} s.state[e] = bf16(0.f); {FILLED} for (int n = 0; n < 4; ++n) multiply(f, left + n * 16, right, H);"
        f" {LEFT} {EACH} s.state[e] = bf16(float(s.state[e]) + s.stage[{AT}]);",
        STATE,
    ),
    "two parts of a tile": (
        "",
        "",
        f"{FILLED} {MULTIPLIED} {LEFT} {EACH} s.state[e] = bf16(0.5f * s.stage[{AT}]);"
        f" {EACH} s.state[e] = bf16(float(s.state[e]) + 0.5f * s.stage[{AT}]);",
        STATE,
    ),
    "two products of a tile": (
        PUT,
        "",
        f"{FILLED} {MULTIPLIED} put(f, s.stage, s.state); take(s.stage, s.state, 1.f);"
        " wmma::load_matrix_sync(f, s.stage, LD, wmma::mem_row_major); multiply(f, left + 16, right, H);"
        " put(f, s.stage, s.state);",
        STATE,
    ),
    "tiles, each once": (PUT, JOBS.format(at="s.tiles + job * TILE", loaded=LOADED, multiplied=(
        "multiply(f, k + job * 16, v, H);")).replace("fade", "1.f"), "", "s.tiles[e]"),
    "a part in bf16, the sum in fp32": (
        "",
        f"{EACH} s.wide[e] = 0.f;",
        f"{FILLED} {MULTIPLIED} {LEFT} {EACH} s.low[e] = bf16(s.stage[{AT}]);"
        f" {EACH} s.wide[e] = s.wide[e] * fade + float(s.low[e]);",
        "bf16(s.wide[e])",
    ),
    "high and low parts": (
        "",
        f"{EACH} s.low[e] = bf16(0.f);",
        f"{EACH} s.stage[{AT}] = fade * (float(s.state[e]) + float(s.low[e])); {LOADED} {MULTIPLIED} {LEFT}"
        f" {EACH} {{ const float all = s.stage[{AT}]; const bf16 high = __float2bfloat16(all);"
        " s.state[e] = high; s.low[e] = __float2bfloat16(all - __bfloat162float(high)); }",
        STATE,
    ),
    "rounded by chance": (
        "",
        f"{EACH} s.wide[e] = 0.f; unsigned noise = lane;",
        f"{EACH} s.stage[{AT}] = fade * s.wide[e]; {LOADED} {MULTIPLIED} {LEFT} {EACH} {{"
        f" noise = noise * 1664525u + 1013904223u; unsigned bits = __float_as_uint(s.stage[{AT}]);"
        " bits = (bits + (noise >> 16)) & 0xffff0000u; s.wide[e] = __uint_as_float(bits); }",
        "bf16(s.wide[e])",
    ),
    "powers of a series": (
        PUT,
        "Acc p; wmma::fill_fragment(p, 0.f); multiply(p, k, v, H);"
        " put(p, s.stage, s.powers); put(p, s.stage, s.state);",
        f"take(s.stage, s.state, 1.f); {LOADED} multiply(f, s.state, s.powers, 16); put(f, s.stage, s.state);"
        " wmma::fill_fragment(p, 0.f); multiply(p, s.powers, s.powers, 16); put(p, s.stage, s.powers);",
        STATE,
    ),
    "registers of an instruction, with a copy": (
        MMA,
        "float d[4] = {}; __nv_bfloat162 held[2];",
        f"{OPERANDS} for (int i = 0; i < 4; ++i) d[i] *= fade; mma(d, a, b);"
        " for (int i = 0; i < 2; ++i) held[i] = __floats2bfloat162_rn(d[2 * i], d[2 * i + 1]);",
        "__low2bfloat16(held[0])",
    ),
    "by plain loops in fp32": (
        "",
        f"{EACH} s.wide[e] = 0.f;",
        f"{EACH} {{ float sum = fade * s.wide[e];"
        " for (int j = 0; j < 16; ++j) sum += float(left[j * H + e / 16]) * float(right[j * H + e % 16]);"
        " s.wide[e] = sum; s.seen[e] = bf16(sum); }",
        "bf16(s.wide[e])",
    ),
    "weights in bf16, the sum in fp32": (
        "",
        f"{EACH} s.wide[e] = 0.f;",
        f"{FILLED} {MULTIPLIED} {LEFT} {EACH} s.low[e] = bf16(s.stage[{AT}]); {EACH} {{ float sum = fade * s.wide[e];"
        " for (int j = 0; j < 16; ++j) sum += float(left[j]) * float(s.low[j * 16 + e % 16]); s.wide[e] = sum; }",
        "bf16(s.wide[e])",
    ),
}  # fmt: skip


def rules_of(tmp_path: Path, functions: str, begin: str, step: str, end: str) -> set[str]:
    text = TEXT.replace("FUNCTIONS", functions).replace("BEGIN", begin).replace("ROUND", step).replace("END", end)
    report = report_of(tmp_path, text.replace("EACH", EACH), "02_kda_cutlass")
    return {f"{found.rule} {found.message.split()[0]}" for found in report.findings if "accumulators" in found.message}


@pytest.mark.parametrize("case", NARROW)
def test_a_state_that_lies_in_16_bits_is_a_narrow_total(tmp_path: Path, case: str) -> None:
    assert rules_of(tmp_path, *NARROW[case]) in ({"KBH404 accumulators"}, {"KBH403 accumulators"})


@pytest.mark.parametrize("case", WIDE)
def test_what_else_lies_in_16_bits_is_none(tmp_path: Path, case: str) -> None:
    assert rules_of(tmp_path, *WIDE[case]) == set()
