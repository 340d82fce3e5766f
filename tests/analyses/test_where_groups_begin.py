"""Groups whose rows begin elsewhere than at an offset, which is read as the end of one alone, and groups that begin at
offsets, in whatever way a kernel or a plan finds them."""

from __future__ import annotations

from pathlib import Path

import pytest
from expert_programs import WEIGHTS, leaks, program
from linted import cases

KERNEL = """
@triton.jit
def swiglu(x, gate, up, offsets, y, total, per, H, I, E: tl.constexpr, B: tl.constexpr, EP: tl.constexpr):
    one, other = tl.program_id(0), tl.program_id(1)
    cols = tl.program_id(2) * B + tl.arange(0, B)
BODY
"""
FORWARD = """
total, offsets = rows, expert_offsets
per, EP = total // E, triton.next_power_of_2(E)
grid = (E, triton.cdiv(total, B), I // B)
PLAN
swiglu[grid](hidden_states, *weights, offsets, y, total, per, H, I, E=E, B=B, EP=EP)
"""
ROW = """rows = row + tl.arange(0, B) * 0
    product(x, gate, up, y, rows, tl.arange(0, B) < 1, cols, e, H, I, B)"""
LAST = "\n    product(x, gate, up, y, rows, rows < end, cols, one, H, I, B)"
AFTER = """
@triton.jit
def window(offsets, expert, per, total):
    origin = tl.load(offsets)
    first = origin + expert * per
    return first, tl.minimum(first + per, total)

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
"""
ELSEWHERE = cases("""\
# the end alone is an offset
end = tl.load(offsets + one + 1)
rows = one * per + other * B + tl.arange(0, B)
# and a program leaves early
end = tl.load(offsets + one + 1)
first = one * per + other * B
if first >= end:
    return
rows = first + tl.arange(0, B)
# the end of both
end = tl.minimum(tl.load(offsets + one + 1), total)
rows = one * per + other * B + tl.arange(0, B)
# the first offset of all
first, end = window(offsets, one, per, total)
rows = first + other * B + tl.arange(0, B)
# the last offset of all
end = tl.load(offsets + E)
rows = one * per + other * B + tl.arange(0, B)
# the end of a loop
end = tl.load(offsets + one + 1).to(tl.int64)
for first in range(one * per + other * B, end, B * tl.num_programs(1)):
    rows = first + tl.arange(0, B)
    product(x, gate, up, y, rows, rows < end, cols, one, H, I, B)
# tiles in turns
for tile in range(other, (per + B - 1) // B, tl.num_programs(1)):
    end = tl.load(offsets + one + 1)
    first = one * per + tile * B
    if first < end:
        rows = first + tl.arange(0, B)
        product(x, gate, up, y, rows, rows < end, cols, one, H, I, B)
""")
AT_OFFSETS = cases("""\
# both offsets
end = tl.load(offsets + one + 1)
rows = tl.load(offsets + one) + other * B + tl.arange(0, B)
# a place less what an offset is
end = tl.load(offsets + one + 1)
rows = other * B + tl.arange(0, B)
keep = (rows >= tl.load(offsets + one)) & (rows < end)
product(x, gate, up, y, rows, keep, cols, one, H, I, B)
# all groups for each tile
rows = other * B + tl.arange(0, B)
for e in range(one, E, tl.num_programs(0)):
    first, end = tl.load(offsets + e), tl.load(offsets + e + 1)
    if (first < other * B + B) & (end > other * B):
        product(x, gate, up, y, rows, (rows >= first) & (rows < end), cols, e, H, I, B)
# counted ends
row = one * (total // E) + other
if other < total // E:
    e = tl.sum((tl.load(offsets + 1 + tl.arange(0, EP), mask=tl.arange(0, EP) < E, other=total) <= row).to(tl.int32))
    ROW
# ends passed one by one
row = one * (total // E) + other
if other < total // E:
    e = 0
    while tl.load(offsets + e + 1) <= row:
        e += 1
    ROW
# ends added up
row = one * (total // E) + other
if other < total // E:
    e = 0
    for i in range(0, E - 1):
        e += (tl.load(offsets + i + 1) <= row).to(tl.int32)
    ROW
# ends chosen by
row = one * (total // E) + other
if other < total // E:
    e = 0
    for i in range(0, E - 1):
        if tl.load(offsets + i + 1) <= row:
            e = i + 1
    ROW
# a search
row = one * (total // E) + other
if other < total // E:
    e = owner(offsets, row, E)
    ROW
# tiles counted on the way
tile = one * tl.num_programs(1) + other
seen, first = 0, 0
for e in range(0, E):
    end = tl.load(offsets + e + 1)
    tiles = tl.cdiv(end - first, B)
    if (tile >= seen) & (tile < seen + tiles):
        rows = first + (tile - seen) * B + tl.arange(0, B)
        product(x, gate, up, y, rows, rows < end, cols, e, H, I, B)
    seen += tiles
    first = end
# the end of the group before
first = tl.load(offsets + one + 1 - 1)
end = tl.load(offsets + one + 1)
rows = first + other * B + tl.arange(0, B)
# backwards from the end
end = tl.load(offsets + one + 1)
low = tl.load(offsets + one)
rows = end - 1 - other * B - tl.arange(0, B)
product(x, gate, up, y, rows, rows >= low, cols, one, H, I, B)
# the last group that begins before
rows = other * B + tl.arange(0, B)
for i in range(0, E):
    e = E - 1 - i
    done = tl.zeros((B,), dtype=tl.int1)
    live = (rows < tl.load(offsets + e + 1)) & (done == 0)
    done = done | live
    product(x, gate, up, y, rows, live, cols, e, H, I, B)
""")
PLANNED = cases("""\
# starts and ends apart
starts, ends = offsets[:-1].contiguous(), offsets[1:].contiguous()
offsets = torch.cat([starts, ends])
---
end = tl.load(offsets + E + one)
rows = tl.load(offsets + one) + other * B + tl.arange(0, B)
# counts added up again
counts = offsets[1:] - offsets[:-1]
offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
---
end = tl.load(offsets + one + 1)
rows = tl.load(offsets + one) + other * B + tl.arange(0, B)
# an owner of each row
counts = (offsets[1:] - offsets[:-1]).long()
offsets = torch.repeat_interleave(torch.arange(E, device=y.device), counts, output_size=total)
---
row = one * (total // E) + other
if other < total // E:
    e = tl.load(offsets + row)
    ROW
# a bucket of each row
rows = torch.arange(total, device=y.device, dtype=torch.int32)
offsets = torch.bucketize(rows, offsets[1:], right=True)
---
row = one * (total // E) + other
if other < total // E:
    e = tl.load(offsets + row)
    ROW
""")


def in_triton(body: str, plan: str = "pass") -> str:
    if "product(" not in body and "ROW" not in body:
        body += LAST.replace("\n    ", "\n")
    body = "\n".join("    " + line for line in body.replace("ROW", ROW).splitlines())
    return program(AFTER + KERNEL.replace("BODY", body), FORWARD.replace("PLAN", plan))


@pytest.mark.parametrize("how", ELSEWHERE)
def test_offsets_that_say_only_where_groups_end_are_told(tmp_path: Path, how: str) -> None:
    found, states = leaks(tmp_path, in_triton(ELSEWHERE[how]))
    assert states == {"broken"} and any("the first row of a group" in one for one in found), (found, states)


@pytest.mark.parametrize("how", AT_OFFSETS)
def test_groups_that_begin_at_offsets_are_not(tmp_path: Path, how: str) -> None:
    assert leaks(tmp_path, in_triton(AT_OFFSETS[how])) == ([], {"kept"})


@pytest.mark.parametrize("how", PLANNED)
def test_groups_of_a_plan_made_of_offsets_are_not(tmp_path: Path, how: str) -> None:
    plan, body = PLANNED[how].split("\n---\n")
    assert leaks(tmp_path, in_triton(body, plan)) == ([], {"kept"})


CUDA = '''# kbh: problem=06_sonic_moe_swiglu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
using bf16 = __nv_bfloat16;
constexpr int TILE = 16;

__device__ __forceinline__ float dot(const bf16* x, const bf16* w, int H, int I) {
  float sum = 0.f;
  for (int k = 0; k < H; ++k) sum += __bfloat162float(x[k]) * __bfloat162float(w[size_t(k) * I]);
  return sum;
}

__device__ __forceinline__ void one(const bf16* x, const bf16* gate, const bf16* up, bf16* y, int row, int col, int H,
                                    int I, int e) {
  const size_t at = size_t(e) * H * I + col;
  const float g = dot(x + size_t(row) * H, gate + at, H, I), u = dot(x + size_t(row) * H, up + at, H, I);
  y[size_t(row) * I + col] = __float2bfloat16(g / (1.f + __expf(-g)) * u);
}

__device__ __forceinline__ int owner(const int* offsets, int row, int E) {
  int low = 0, high = E;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (__ldg(offsets + middle) <= row) low = middle; else high = middle;
  }
  return low;
}

struct Group { int first, end; };

__device__ __forceinline__ Group group(const int* offsets, int e) { return {offsets[e], offsets[e + 1]}; }

__device__ __forceinline__ void bounds(const int* offsets, int e, int& first, int& end) {
  first = offsets[e];
  end = offsets[e + 1];
}

__global__ void swiglu(const bf16* __restrict__ x, const bf16* __restrict__ gate, const bf16* __restrict__ up,
                       const int* __restrict__ offsets, bf16* __restrict__ y, int total, int per, int H, int I, int E) {
  const int e = blockIdx.x, tile = blockIdx.y, col = blockIdx.z * 16 + threadIdx.x, lane = threadIdx.y;
BODY
}

void run(torch::Tensor x, torch::Tensor gate, torch::Tensor up, torch::Tensor offsets, torch::Tensor y, int64_t tiles) {
  const int E = gate.size(0), H = gate.size(1), I = gate.size(2), total = x.size(0);
  swiglu<<<dim3(E, tiles, I / 16), dim3(16, TILE)>>>((const bf16*)x.data_ptr(), (const bf16*)gate.data_ptr(),
      (const bf16*)up.data_ptr(), offsets.data_ptr<int>(), (bf16*)y.data_ptr(), total, total / E, H, I, E);
}
"""
module = load_inline(
    name="groups", functions=["run"], cuda_sources=SOURCE,
    cpp_sources="void run(torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor, int64_t);",
)


WEIGHTS
    def forward(self, hidden_states, expert_offsets):
        total, I = hidden_states.shape[0], self.W_gate.shape[2]
        y = torch.empty(total, I, dtype=torch.bfloat16, device=hidden_states.device)
        module.run(hidden_states, self.W_gate, self.W_up, expert_offsets, y, (total + 15) // 16)
        return y
'''
CUDA_ELSEWHERE = cases("""\
# the end alone
int row = e * per + tile * TILE + lane;
if (row < offsets[e + 1]) ROW(e);
# a block leaves early
const int row = e * per + tile * TILE + lane;
if (row >= __ldg(&offsets[e + 1])) return;
ROW(e);
# the end of a loop
const int end = min(offsets[e + 1], total);
for (int row = e * per + tile * TILE + lane; row < end; row += TILE * gridDim.y) ROW(e);
# the first offset of all
const int first = offsets[0] + e * per;
const int row = first + tile * TILE + lane;
if (row < first + per) ROW(e);
# rows that are staged
__shared__ bf16 rows[TILE][64];
float g = 0.f, u = 0.f;
const int row = e * per + tile * TILE + lane;
const bool live = row < offsets[e + 1];
for (int k = 0; k < H; k += 64) {
  for (int i = threadIdx.x; i < 64; i += 16)
    rows[lane][i] = live ? x[size_t(row) * H + k + i] : __float2bfloat16(0.f);
  __syncthreads();
  for (int i = 0; i < 64; ++i) {
    const float a = __bfloat162float(rows[lane][i]);
    const size_t at = (size_t(e) * H + k + i) * I + col;
    g = fmaf(a, __bfloat162float(gate[at]), g);
    u = fmaf(a, __bfloat162float(up[at]), u);
  }
  __syncthreads();
}
if (live) y[size_t(row) * I + col] = __float2bfloat16(g / (1.f + expf(-g)) * u);
""")
CUDA_AT_OFFSETS = cases("""\
# both offsets
int row = offsets[e] + tile * TILE + lane;
if (row < offsets[e + 1]) ROW(e);
# in a struct
const Group g = group(offsets, e);
int row = g.first + tile * TILE + lane;
if (row < g.end) ROW(e);
# by reference
int first, end;
bounds(offsets, e, first, end);
int row = first + tile * TILE + lane;
if (row < end) ROW(e);
# a pointer that is moved
const int* mine = offsets + e;
int row = *mine++ + tile * TILE + lane;
if (row < *mine) ROW(e);
# both at once
const int2 pair = make_int2(offsets[e], offsets[e + 1]);
int row = pair.x + tile * TILE + lane;
if (row < pair.y) ROW(e);
# in shared memory
__shared__ int window[2];
if (threadIdx.x < 2 && lane == 0) window[threadIdx.x] = offsets[e + threadIdx.x];
__syncthreads();
int row = window[0] + tile * TILE + lane;
if (row < window[1]) ROW(e);
# a search
if (tile == 0)
  for (int row = e * TILE + lane; row < total; row += E * TILE)
    ROW(owner(offsets, row, E));
# ends passed one by one
if (tile == 0)
  for (int row = e * TILE + lane; row < total; row += E * TILE) {
    int mine = 0;
    while (offsets[mine + 1] <= row) ++mine;
    ROW(mine);
  }
# ends looked through
if (tile == 0)
  for (int row = e * TILE + lane; row < total; row += E * TILE)
    for (int mine = 0; mine < E; ++mine)
      if (row < offsets[mine + 1]) {
        ROW(mine);
        break;
      }
# ends that are counted
if (tile == 0)
  for (int row = e * TILE + lane; row < total; row += E * TILE) {
    int mine = 0;
    for (int i = 1; i < E; ++i) mine += offsets[i] <= row;
    ROW(mine);
  }
# ends that overwrite
for (int row = tile * TILE + lane; e == 0 && row < total; row += TILE * gridDim.y)
  for (int mine = E - 1; mine >= 0; --mine)
    if (row < offsets[mine + 1]) ROW(mine);
""")


def in_cuda(body: str) -> str:
    body = body.replace("ROW(", "one(x, gate, up, y, row, col, H, I, ")
    text = CUDA.replace("BODY", "\n".join("  " + line for line in body.splitlines()))
    return text.replace("WEIGHTS\n", WEIGHTS.lstrip())


@pytest.mark.parametrize("how", CUDA_ELSEWHERE)
def test_offsets_that_say_only_where_groups_end_are_told_in_cuda(tmp_path: Path, how: str) -> None:
    found, states = leaks(tmp_path, in_cuda(CUDA_ELSEWHERE[how]))
    assert states == {"broken"} and any("the first row of a group" in one for one in found), (found, states)


@pytest.mark.parametrize("how", CUDA_AT_OFFSETS)
def test_groups_that_begin_at_offsets_are_not_in_cuda(tmp_path: Path, how: str) -> None:
    found, states = leaks(tmp_path, in_cuda(CUDA_AT_OFFSETS[how]))
    assert found == [] and states <= {"kept", "unproven"}, (found, states)
