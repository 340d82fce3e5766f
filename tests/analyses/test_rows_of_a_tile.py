"""Kernels whose tiles lie where they lie whatever offsets say, and take the group of one row for all of their rows, and
kernels that look alike and tell rows apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

TRITON = """# kbh: problem=06_sonic_moe_swiglu
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def owner(offsets, row, E: tl.constexpr):
    low, high = 0, E
    while high - low > 1:
        middle = (low + high) // 2
        if tl.load(offsets + middle) <= row:
            low = middle
        else:
            high = middle
    return low


@triton.jit
def owner_in_steps(offsets, row, E: tl.constexpr, STEPS: tl.constexpr):
    low = row * 0
    high = row * 0 + E
    for _ in range(STEPS):
        middle = (low + high) // 2
        below = tl.load(offsets + middle) <= row
        low = tl.where(below & (high - low > 1), middle, low)
        high = tl.where(below, high, middle)
    return low


@triton.jit
def swiglu(x, gate, up, offsets, y, total, H, I, E: tl.constexpr, EP: tl.constexpr, BM: tl.constexpr,
           BN: tl.constexpr, BK: tl.constexpr):
    tile = tl.program_id(AXIS)
    cols = tl.program_id(OTHER) * BN + tl.arange(0, BN)
    e_ids = tl.arange(0, EP)
    ends = tl.load(offsets + e_ids + 1, mask=e_ids < E, other=2147483647)
    rows = tile * BM + tl.arange(0, BM)
    keep = rows < total
    LOOKUP
    out = tl.zeros((BM, BN), dtype=tl.float32)
    LOOP:
        g = tl.zeros((BM, BN), dtype=tl.float32)
        u = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, H, BK):
            depth = k + tl.arange(0, BK)
            a = tl.load(x + rows[:, None].to(tl.int64) * H + depth[None, :], mask=keep[:, None], other=0.0)
            at = (expert * H + depth)[:, None] * I + cols[None, :]
            g = tl.dot(a, tl.load(gate + at), g)
            u = tl.dot(a, tl.load(up + at), u)
        SUMMED
    place = y + rows[:, None].to(tl.int64) * I + cols[None, :]
    tl.store(place, out.to(tl.bfloat16), mask=keep[:, None])


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))

    def forward(self, x, offsets):
        E, H, I = self.W_gate.shape
        total, BM, BN = x.shape[0], 64, 64
        y = torch.empty(total, I, dtype=torch.bfloat16, device=x.device)
        grid = (triton.cdiv(total, BM), I // BN)
        swiglu[grid if AXIS == 0 else grid[::-1]](
            x, self.W_gate, self.W_up, offsets, y, total, H, I, E=E, EP=triton.next_power_of_2(E), BM=BM, BN=BN, BK=64,
        )
        return y
"""
ONCE, ALL, WHOLE = "for _ in range(1)", "for expert in range(first, last + 1)", "out = g * tl.sigmoid(g) * u"
OWN = "out = tl.where((group == expert)[:, None], g * tl.sigmoid(g) * u, out)"
BETWEEN = """low, high = tl.load(offsets + expert), tl.load(offsets + expert + 1)
        mine = (rows >= low) & (rows < high)
        out = tl.where(mine[:, None], g * tl.sigmoid(g) * u, out)"""
BOTH = "first, last = owner(offsets, tile * BM, E), owner(offsets, tl.minimum(tile * BM + BM, total) - 1, E)"
TRITON_LEAKS = {
    "of the ends before its first row": ("0", "expert = tl.sum((ends <= tile * BM).to(tl.int32), 0)", ONCE, WHOLE),
    "along the other axis": ("1", "expert = tl.sum((ends <= tile * BM).to(tl.int32), 0)", ONCE, WHOLE),
    "of its middle row": ("0", "expert = tl.sum((ends <= tile * BM + BM // 2).to(tl.int32), 0)", ONCE, WHOLE),
    "of its last row": (
        "0", "expert = tl.sum((ends <= tl.minimum(tile * BM + BM, total) - 1).to(tl.int32), 0)", ONCE, WHOLE
    ),
    "by halves": ("0", "expert = owner(offsets, tile * BM, E)", ONCE, WHOLE),
    "by halves in steps": ("0", "expert = owner_in_steps(offsets, tile * BM, E, 8)", ONCE, WHOLE),
    "one after the other": (
        "0", "expert = 0\n    while tl.load(offsets + expert + 1) <= tile * BM:\n        expert += 1", ONCE, WHOLE
    ),
    "the largest that begins before": (
        "0", "begins = tl.load(offsets + e_ids, mask=e_ids < E, other=total)"
        "\n    expert = tl.max(tl.where(begins <= tile * BM, e_ids, 0), 0)", ONCE, WHOLE,
    ),
}  # fmt: skip
TRITON_HONEST = {
    "each of a tile's experts, by its own rows": ("0", BOTH, ALL, BETWEEN),
    "along the other axis, too": ("1", BOTH, ALL, BETWEEN),
    "experts of rows": (
        "0", BOTH + "\n    group = tl.sum((ends[None, :] <= rows[:, None]).to(tl.int32), 1)", ALL, OWN
    ),
    "experts of rows, by halves": (
        "0", "first, last = owner(offsets, tile * BM, E), owner(offsets, tl.minimum(tile * BM + BM, total) - 1, E)"
        "\n    group = owner_in_steps(offsets, rows, E, 8)", ALL, OWN
    ),
    "all experts": ("0", "first, last = 0, E - 1", ALL, BETWEEN),
    "the rows of an expert that begin in a tile": (
        "0", BOTH, ALL, "low = tl.load(offsets + expert) - tile * BM\n        high = tl.load(offsets + expert + 1)"
        "\n        mine = (tl.arange(0, BM) >= low) & (rows < high)"
        "\n        out = tl.where(mine[:, None], g * tl.sigmoid(g) * u, out)"
    ),
}  # fmt: skip

CUDA = """# kbh: problem=06_sonic_moe_swiglu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
using bf16 = __nv_bfloat16;
constexpr int BM = 64, BN = 64, BK = 16;

__device__ int owner(const int* offsets, int count, int row) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (offsets[middle] <= row) low = middle; else high = middle;
  }
  return low;
}

template <class F> __device__ void each_row(int tid, F f) {
  for (int i = tid; i < BM; i += blockDim.x) f(i);
}

__global__ void swiglu(const bf16* x, const bf16* gate, const bf16* up, const int* offsets, bf16* y, int rows, int H,
                       int I, int E) {
  __shared__ bf16 a[BM * BK], g[BK * BN], u[BK * BN];
  __shared__ float left[BM * BN], right[BM * BN];
  __shared__ int chosen;
  const int tid = threadIdx.x, warp = tid / 32, first = blockIdx.y * ROWS, column = blockIdx.x * BN;
  LOOKUP
  LOOP {
    const size_t base = size_t(expert) * H * I + column;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> one[4], other[4];
    for (int i = 0; i < 4; ++i) { wmma::fill_fragment(one[i], 0.f); wmma::fill_fragment(other[i], 0.f); }
    for (int k = 0; k < H; k += BK) {
      for (int i = tid; i < BM * BK; i += blockDim.x)
        a[i] = first + i / BK < rows && i / BK < ROWS ? x[size_t(first + i / BK) * H + k + i % BK] : bf16(0.f);
      for (int i = tid; i < BK * BN; i += blockDim.x) {
        g[i] = gate[base + size_t(k + i / BN) * I + i % BN];
        u[i] = up[base + size_t(k + i / BN) * I + i % BN];
      }
      __syncthreads();
      wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fa;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> fb;
      wmma::load_matrix_sync(fa, a + warp * 16 * BK, BK);
      for (int i = 0; i < 4; ++i) {
        wmma::load_matrix_sync(fb, g + i * 16, BN);
        wmma::mma_sync(one[i], fa, fb, one[i]);
        wmma::load_matrix_sync(fb, u + i * 16, BN);
        wmma::mma_sync(other[i], fa, fb, other[i]);
      }
      __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
      wmma::store_matrix_sync(left + warp * 16 * BN + i * 16, one[i], BN, wmma::mem_row_major);
      wmma::store_matrix_sync(right + warp * 16 * BN + i * 16, other[i], BN, wmma::mem_row_major);
    }
    __syncthreads();
    for (int i = tid; i < ROWS * BN; i += blockDim.x) {
      const int row = first + i / BN;
      const float v = left[i];
      if (KEEP) y[size_t(row) * I + column + i % BN] = __float2bfloat16(v / (1.f + __expf(-v)) * right[i]);
    }
    __syncthreads();
  }
}

void run(torch::Tensor x, torch::Tensor gate, torch::Tensor up, torch::Tensor offsets, torch::Tensor y) {
  const int rows = x.size(0), H = x.size(1), E = gate.size(0), I = gate.size(2);
  swiglu<<<dim3(I / BN, (rows + ROWS - 1) / ROWS), 128>>>(
      reinterpret_cast<const bf16*>(x.data_ptr()), reinterpret_cast<const bf16*>(gate.data_ptr()),
      reinterpret_cast<const bf16*>(up.data_ptr()), offsets.data_ptr<int>(), reinterpret_cast<bf16*>(y.data_ptr()),
      rows, H, I, E);
}
'''
ext = load_inline(
    name="rows_of_a_tile", cuda_sources=[SOURCE], functions=["run"],
    cpp_sources=["void run(torch::Tensor x, torch::Tensor gate, torch::Tensor up, torch::Tensor offsets,"
                 " torch::Tensor y);"],
)


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))

    def forward(self, x, offsets):
        y = torch.empty(x.shape[0], self.W_up.shape[2], dtype=torch.bfloat16, device=x.device)
        ext.run(x, self.W_gate, self.W_up, offsets, y)
        return y
"""
SHARED = "if (tid == 0) chosen = %s; __syncthreads(); const int expert = chosen;"
EACH = "for (int expert = begin; expert <= end; ++expert)"
ENDS = "const int begin = owner(offsets, E, first), end = owner(offsets, E, min(first + ROWS, rows) - 1);"
INSIDE = "row < rows && row >= offsets[expert] && row < offsets[expert + 1]"
CUDA_LEAKS = {
    "its first row's, by halves": (SHARED % "owner(offsets, E, first)", "", "row < rows"),
    "each thread for itself": ("const int expert = owner(offsets, E, first);", "", "row < rows"),
    "its last row's": (SHARED % "owner(offsets, E, min(first + ROWS, rows) - 1)", "", "row < rows"),
    "one after the other": ("int expert = 0; while (offsets[expert + 1] <= first) ++expert;", "", "row < rows"),
    "by all threads at once": (
        "for (int e = tid; e < E; e += blockDim.x) if (offsets[e] <= first && first < offsets[e + 1]) chosen = e;"
        " __syncthreads(); const int expert = chosen;", "", "row < rows"
    ),
    "of a copy in shared memory": (
        "__shared__ int held[512]; for (int i = tid; i <= E; i += blockDim.x) held[i] = offsets[i]; __syncthreads();"
        " int expert = 0; while (held[expert + 1] <= first) ++expert;", "", "row < rows"
    ),
    "the last that begins before": (
        "int expert = 0; for (int e = 0; e < E; ++e) expert = __ldg(offsets + e) <= first ? e : expert;", "",
        "row < rows"
    ),
}  # fmt: skip
CUDA_HONEST = {
    "each of its experts, by its rows": (ENDS, EACH, INSIDE),
    "each of its experts, by what is left": (
        ENDS, EACH, "row < rows && i / BN >= offsets[expert] - first && i / BN < offsets[expert + 1] - first"
    ),
    "experts of rows": (ENDS, EACH, "row < rows && owner(offsets, E, row) == expert"),
    "experts of rows in shared memory": (
        ENDS + " __shared__ int own[BM]; for (int i = tid; i < BM; i += blockDim.x)"
        " own[i] = owner(offsets, E, first + i); __syncthreads();", EACH, "row < rows && own[i / BN] == expert"
    ),
    "one group where there is one, else by rows": (
        ENDS, "for (int expert = begin; expert <= (begin == end ? begin : end); ++expert)",
        "row < rows && (begin == end || owner(offsets, E, row) == expert)"
    ),
    "rows handed out by a function": (
        "auto mine = [&](int expert, int row) { return row >= offsets[expert] && row < offsets[expert + 1]; }; " + ENDS,
        EACH, "row < rows && mine(expert, row)"
    ),
    "a function that is given one": (
        ENDS + " __shared__ int own[BM]; each_row(tid, [&](int i) { own[i] = owner(offsets, E, first + i); });"
        " __syncthreads();", EACH, "row < rows && own[i / BN] == expert"
    ),
    "a function with a name that is given one": (
        ENDS + " __shared__ int own[BM]; auto find = [&](int i) { own[i] = owner(offsets, E, first + i); };"
        " each_row(tid, find); __syncthreads();", EACH, "row < rows && own[i / BN] == expert"
    ),
    "a copy in shared memory": (
        ENDS + " __shared__ int held[512]; for (int i = tid; i <= E; i += blockDim.x) held[i] = offsets[i];"
        " __syncthreads();", EACH, "row < rows && row >= held[expert] && row < held[expert + 1]"
    ),
    "a first row by reference": (
        "int begin = 0, end = 0; auto find = [&](int& to, int row) { to = owner(offsets, E, row); };"
        " find(begin, first); find(end, min(first + ROWS, rows) - 1); int own = 0;", EACH,
        "row < rows && (find(own, row), own == expert)"
    ),
    "a loop from group to group": (
        "int expert = owner(offsets, E, first) - 1; int from = first;",
        "while (from < min(first + ROWS, rows) && ++expert < E)",
        INSIDE,
    ),
}  # fmt: skip

LOOKED_UP = ("expert = tl.load(offsets + tile)", ONCE, WHOLE)
MAPPED = TRITON.replace("    ends = tl.load(offsets + e_ids + 1, mask=e_ids < E, other=2147483647)\n", "").replace(
    "self.W_up, offsets, y", "self.W_up, MAP, y"
)
EACH_ROW = ("first, last = 0, E - 1\n    group = tl.load(offsets + rows, mask=keep, other=0)", ALL, OWN)
FROM = "torch.arange(0, total, BM, device=x.device, dtype=torch.int32)"
MAP_LEAKS = {
    "searched": f"torch.searchsorted(offsets[1:], {FROM}, right=True).to(torch.int32)",
    "bucketized": f"torch.bucketize({FROM}, offsets[1:], right=True).to(torch.int32)",
    "counted": f"(offsets[1:, None] <= {FROM}[None, :]).sum(0).to(torch.int32)",
    "of last rows": f"torch.searchsorted(offsets[1:], {FROM} + BM - 1, right=True).clamp(max=E - 1).to(torch.int32)",
}
ROW = "torch.arange(total, device=x.device, dtype=torch.int32)"
MAP_HONEST = {
    "searched": f"torch.searchsorted(offsets[1:], {ROW}, right=True).to(torch.int32)",
    "bucketized": f"torch.bucketize({ROW}, offsets[1:], right=True).to(torch.int32)",
    "repeated": "torch.repeat_interleave(torch.arange(E, device=x.device, dtype=torch.int32), offsets.diff())",
}


def linted(tmp_path: Path, text: str, **parts: str) -> tuple[str, set[str], list[str]]:
    for name, part in parts.items():
        text = text.replace(name, part)
    report = report_of(tmp_path, text)
    states = {promise.state for promise in report.promises if promise.id == "ragged-offsets"}
    return report.verdict, states, [finding.message for finding in report.findings]


def in_triton(tmp_path: Path, axis: str, lookup: str, loop: str, summed: str) -> tuple[str, set[str], list[str]]:
    text = {"LOOKUP": lookup, "LOOP": loop, "SUMMED": summed}
    return linted(tmp_path, TRITON, AXIS=axis, OTHER=str(1 - int(axis)), **text)


def in_cuda(tmp_path: Path, lookup: str, loop: str, keep: str, rows: str = "BM") -> tuple[str, set[str], list[str]]:
    return linted(tmp_path, CUDA, LOOKUP=lookup, LOOP=loop, KEEP=keep, ROWS=rows)


@pytest.mark.parametrize("how", TRITON_LEAKS)
def test_a_group_for_all_rows_of_a_tile_is_told(tmp_path: Path, how: str) -> None:
    verdict, states, found = in_triton(tmp_path, *TRITON_LEAKS[how])
    assert (verdict, states) == ("rubric_leak", {"broken"}) and any("rows of a tile" in one for one in found), found


@pytest.mark.parametrize("how", TRITON_HONEST)
def test_rows_of_a_tile_that_are_told_apart(tmp_path: Path, how: str) -> None:
    verdict, states, found = in_triton(tmp_path, *TRITON_HONEST[how])
    assert verdict in ("clean", "interesting") and states == {"kept"}, found


@pytest.mark.parametrize("how", CUDA_LEAKS)
def test_a_group_for_all_rows_of_a_tile_is_told_in_cuda(tmp_path: Path, how: str) -> None:
    verdict, states, found = in_cuda(tmp_path, *CUDA_LEAKS[how])
    assert (verdict, states) == ("rubric_leak", {"broken"}) and any("rows of a tile" in one for one in found), found


@pytest.mark.parametrize("how", CUDA_HONEST)
def test_rows_of_a_tile_that_are_told_apart_in_cuda(tmp_path: Path, how: str) -> None:
    assert in_cuda(tmp_path, *CUDA_HONEST[how]) == ("clean", {"kept"}, [])


@pytest.mark.parametrize("how", CUDA_LEAKS)
def test_a_tile_of_one_row_has_one_group(tmp_path: Path, how: str) -> None:
    lookup, loop, keep = CUDA_LEAKS[how]
    assert in_cuda(tmp_path, lookup, loop, keep, "1") == ("clean", {"kept"}, [])


@pytest.mark.parametrize("how", MAP_LEAKS)
def test_a_map_of_tiles_by_their_first_rows_is_told(tmp_path: Path, how: str) -> None:
    lookup, loop, summed = LOOKED_UP
    parts = {"AXIS": "0", "OTHER": "1", "LOOKUP": lookup, "LOOP": loop, "SUMMED": summed, "MAP": MAP_LEAKS[how]}
    verdict, states, found = linted(tmp_path, MAPPED, **parts)
    assert (verdict, states) == ("rubric_leak", {"broken"}) and any("rows of a tile" in one for one in found), found


@pytest.mark.parametrize("how", MAP_HONEST)
def test_a_map_of_rows_tells_them_apart(tmp_path: Path, how: str) -> None:
    lookup, loop, summed = EACH_ROW
    parts = {"AXIS": "0", "OTHER": "1", "LOOKUP": lookup, "LOOP": loop, "SUMMED": summed, "MAP": MAP_HONEST[how]}
    verdict, states, found = linted(tmp_path, MAPPED, **parts)
    assert verdict in ("clean", "interesting") and states == {"kept"}, found


def test_a_map_of_tiles_may_stand_beside_offsets(tmp_path: Path) -> None:
    text = TRITON.replace("offsets, y, total", "offsets, owners, y, total", 1).replace(
        "self.W_up, offsets, y", f"self.W_up, offsets, {MAP_LEAKS['searched']}, y"
    )
    lookup = "first = tl.load(owners + tile)\n    last = owner(offsets, tl.minimum(tile * BM + BM, total) - 1, E)"
    verdict, states, found = linted(tmp_path, text, AXIS="0", OTHER="1", LOOKUP=lookup, LOOP=ALL, SUMMED=BETWEEN)
    assert verdict in ("clean", "interesting") and states == {"kept"}, found
