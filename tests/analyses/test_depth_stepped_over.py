"""Products of CUDA kernels whose loops step over a part of the depth, and loops that come to all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

TEXT = r'''# kbh: problem=06_sonic_moe_swiglu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
using bf16 = __nv_bfloat16;
constexpr int BK = 64, ROWS = 8, TURNS = 128;
__device__ __forceinline__ float f(bf16 v) { return __bfloat162float(v); }
__device__ __forceinline__ void wide(bf16* to, const bf16* from) {
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
}
__device__ __forceinline__ int place(int row, int k, int H) { const int at = row * H; return at + k; }
__global__ void grouped(const bf16* x, const bf16* gate, const bf16* up, bf16* y, const int* offsets, int H, int I) {
  __shared__ alignas(16) bf16 tile[ROWS * BK];
  const int e = blockIdx.z, col = blockIdx.x * TURNS + threadIdx.x, last = offsets[e + 1];
  for (int row = offsets[e] + blockIdx.y * ROWS; row < last; row += gridDim.y * ROWS) {
    float g[ROWS] = {}, u[ROWS] = {};
    DEPTH
    for (int r = 0; r < ROWS; ++r) {
      if (row + r >= last || col >= I) continue;
      y[(long)(row + r) * I + col] = __float2bfloat16(g[r] / (1.f + __expf(-g[r])) * u[r]);
    }
  }
}
at::Tensor run(at::Tensor x, at::Tensor gate, at::Tensor up, at::Tensor offsets) {
  const int E = gate.size(0), H = gate.size(1), I = gate.size(2);
  auto y = at::empty({x.size(0), I}, x.options());
  grouped<<<dim3((I + TURNS - 1) / TURNS, 64, E), TURNS>>>(
      (const bf16*)x.data_ptr(), (const bf16*)gate.data_ptr(), (const bf16*)up.data_ptr(), (bf16*)y.data_ptr(),
      offsets.data_ptr<int>(), H, I);
  return y;
}
"""
DECLARED = "at::Tensor run(at::Tensor x, at::Tensor gate, at::Tensor up, at::Tensor offsets);"
ext = load_inline("g", cpp_sources=DECLARED, cuda_sources=SOURCE, functions=["run"])


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states, expert_offsets):
        return ext.run(hidden_states, self.W_gate, self.W_up, expert_offsets)
'''
ADD = """if (col < I) for (int r = 0; r < ROWS; ++r) {
        const float v = VALUE;
        g[r] += v * f(gate[((long)e * H + K) * I + col]);
        u[r] += v * f(up[((long)e * H + K) * I + col]);
      }"""
READ_HERE = "f(row + r < last ? x[(long)(row + r) * H + K] : bf16(0.f))"
DIRECT = ADD.replace("VALUE", READ_HERE)
STAGED = (
    """__syncthreads();
      for (int i = threadIdx.x; i < ROWS * BK; i += TURNS)
        tile[i] = row + i / BK < last ? x[(long)(row + i / BK) * H + k0 + i % BK] : bf16(0.f);
      __syncthreads();
      for (int j = 0; j < BK; ++j) {"""
    + ADD.replace("VALUE", "f(tile[r * BK + j])").replace("K)", "k0 + j)")
    + "}"
)
VECTORS = (
    """__syncthreads();
      for (int i = threadIdx.x; i < ROWS * BK / 8; i += TURNS)
        if (row + i * 8 / BK < last) wide(tile + i * 8, x + (long)(row + i * 8 / BK) * H + k0 + i * 8 % BK);
      __syncthreads();
      for (int j = 0; j < BK; ++j) {"""
    + ADD.replace("VALUE", "f(tile[r * BK + j])").replace("K)", "k0 + j)")
    + "}"
)
FUNCTION = ADD.replace("VALUE", "f(row + r < last ? x[place(row + r, k, H)] : bf16(0.f))").replace("K)", "k)")


def each(loop: str, body: str = DIRECT, k: str = "k") -> str:
    return f"{loop} {{\n      {body.replace('+ K', '+ ' + k)}\n    }}"


WHOLE = "for (int k0 = 0; k0 < H; k0 += BK)"
LEAPS = {
    "every second one": each("for (int k = 0; k < H; k += 2)"),
    "a stride that is wider than a tile": each("for (int k0 = 0; k0 < H; k0 += 2 * BK)", STAGED),
    "the same, sixteen bytes at a time": each("for (int k0 = 0; k0 < H; k0 += 2 * BK)", VECTORS),
    "every second tile by its number": each("for (int t = 0; t < H / BK; t += 2) { int k0 = t * BK;", STAGED) + "}",
    "tiles of another number are left out": each(f"{WHOLE} if (k0 / BK % 4 != 3)", STAGED),
    "tiles that go on": each(f"{WHOLE} {{ if ((k0 / BK) & 1) continue;", STAGED) + "}",
    "half of each tile": each("for (int t = 0; t < H; t += BK) for (int i = 0; i < BK / 2; ++i)", k="t + i"),
    "places in a function": each("for (int k = threadIdx.x % 2 * 0; k < H; k += 4)", FUNCTION),
    "while": "int k = 0; while (k < H) {" + DIRECT.replace("+ K", "+ k") + " k += 2; }",
    "a count that wraps": each("for (int i = 0; i < H; ++i)", k="i % (H / 2)"),
}  # fmt: skip
ALL = {
    "one after the other": each("for (int k = 0; k < H; ++k)"),
    "two a round": each("for (int k = 0; k < H; k += 2)") + each("for (int k = 1; k < H; k += 2)"),
    "tiles": each(WHOLE, STAGED),
    "tiles, sixteen bytes at a time": each(WHOLE, VECTORS),
    "tiles by their number": each("for (int t = 0; t < H / BK; ++t) { const int k0 = t * BK;", STAGED) + "}",
    "two tiles a round": each(
        "for (int t = 0; t < H; t += 2 * BK) for (int k0 = t; k0 < t + 2 * BK && k0 < H; k0 += BK)", STAGED
    ),
    "even tiles, then odd": each("for (int s = 0; s < 2; ++s) for (int k0 = s * BK; k0 < H; k0 += 2 * BK)", STAGED),
    "a start of its own for each block": each(
        "for (int t = 0; t < H / BK; ++t) { const int k0 = (t + blockIdx.y) % (H / BK) * BK;", STAGED
    ) + "}",
    "halves of each tile": each("for (int t = 0; t < H; t += BK) for (int i = 0; i < BK / 2; ++i)", k="t + i")
    + each("for (int t = 0; t < H; t += BK) for (int i = 0; i < BK / 2; ++i)", k="t + i + BK / 2"),
    "places in a function": each("for (int k = 0; k < H; ++k)", FUNCTION),
    "while": "int k = 0; while (k < H) {" + DIRECT.replace("+ K", "+ k") + " k += 1; }",
}  # fmt: skip


def linted(folder: Path, depth: str) -> tuple[str, list[str], dict[str, str]]:
    path = folder / "solution.py"
    path.write_text(TEXT.replace("DEPTH", depth), encoding="utf-8")
    (report,) = lint([path], raise_errors=True).files
    return report.verdict, [f.message for f in report.findings], {p.id: str(p.state) for p in report.promises}


@pytest.mark.parametrize("how", LEAPS)
def test_depth_that_no_thread_multiplies_is_left_out(how: str, tmp_path: Path) -> None:
    verdict, found, states = linted(tmp_path, LEAPS[how])
    assert (verdict, states["authored-compute"]) == ("rubric_leak", "broken"), found
    assert all("depend on all of" in one for one in found), found


@pytest.mark.parametrize("how", ALL)
def test_all_of_the_depth_is_multiplied(how: str, tmp_path: Path) -> None:
    assert linted(tmp_path, ALL[how]) == ("clean", [], {"authored-compute": "kept", "ragged-offsets": "kept"})
