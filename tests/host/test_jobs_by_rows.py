"""Jobs that C++ makes of groups of rows: which function runs each is chosen by its rows, and these are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

PROGRAM = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

TEXT = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
#include <functional>
#include <vector>

__global__ void products(const __nv_bfloat16* x, const __nv_bfloat16* gate, const __nv_bfloat16* up, __nv_bfloat16* out,
                         int rows, int H, int I) {
  int row = blockIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows || column >= I) return;
  float g = 0.f, u = 0.f;
  for (int h = 0; h < H; ++h) {
    float v = __bfloat162float(x[size_t(row) * H + h]);
    g += v * __bfloat162float(gate[size_t(h) * I + column]);
    u += v * __bfloat162float(up[size_t(h) * I + column]);
  }
  out[size_t(row) * I + column] = __float2bfloat16(g / (1.f + __expf(-g)) * u);
}

__global__ void join(const __nv_bfloat16* gate, const __nv_bfloat16* up, __nv_bfloat16* out, size_t n) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  float g = __bfloat162float(gate[i]);
  out[i] = __float2bfloat16(g / (1.f + __expf(-g)) * __bfloat162float(up[i]));
}

using bf16 = const __nv_bfloat16*;
struct Group {
  at::Tensor x, gate, up, out;
  int64_t rows() const { return x.size(0); }
};

struct Rooms {
  std::vector<at::Tensor> held;
  explicit Rooms(int n) { held.resize(n); }
  at::Tensor& of(int at, int64_t rows, const at::Tensor& like) {
    at::Tensor& room = held[at];
    if (!room.defined() || room.size(1) < rows) room = at::empty({2, rows, like.size(1)}, like.options());
    return room;
  }
};

void own(Rooms&, const Group& g, int) {
  int rows = g.rows(), H = g.x.size(1), I = g.out.size(1);
  products<<<dim3((I + 255) / 256, rows), 256>>>((bf16)g.x.data_ptr(), (bf16)g.gate.data_ptr(), (bf16)g.up.data_ptr(),
                                               (__nv_bfloat16*)g.out.data_ptr(), rows, H, I);
}

void lent(Rooms& rooms, const Group& g, int at) {
  int64_t rows = g.rows(), n = rows * g.out.size(1);
  at::Tensor& room = rooms.of(at, rows, g.out);
  at::Tensor left = room[0].narrow(0, 0, rows), right = room[1].narrow(0, 0, rows);
  at::mm_out(left, g.x, g.gate);
  at::mm_out(right, g.x, g.up);
  join<<<(n + 255) / 256, 256>>>((bf16)left.data_ptr(), (bf16)right.data_ptr(), (__nv_bfloat16*)g.out.data_ptr(), n);
}

at::Tensor grouped(at::Tensor x, at::Tensor offsets, at::Tensor gate, at::Tensor up) {
  static Rooms rooms(2);
  at::Tensor out = at::empty({x.size(0), gate.size(2)}, x.options()), host = offsets.cpu();
  const int* ends = host.data_ptr<int>();
  std::vector<Group> groups;
  for (int64_t e = 0; e < gate.size(0); ++e) {
    int64_t rows = ends[e + 1] - ends[e];
    if (rows > 0) groups.push_back({x.narrow(0, ends[e], rows), gate[e], up[e], out.narrow(0, ends[e], rows)});
  }
  using Way = std::function<void(Rooms&, const Group&, int)>;
  for (size_t i = 0; i < groups.size(); ++i) {
    Way way = CHOICE;
    way(rooms, groups[i], i % 2);
  }
  return out;
}
"""
MODULE = load_inline(
    name="groups", cpp_sources="at::Tensor grouped(at::Tensor x, at::Tensor offsets, at::Tensor gate, at::Tensor up);",
    cuda_sources=TEXT, functions=["grouped"])


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states, expert_offsets):
        return MODULE.grouped(hidden_states, expert_offsets, self.W_gate, self.W_up)
'''
# Groups have about 2048 rows at two graded shapes, and 256 at one; none is drawn that has more than twice as many.
CHOICES = {
    "groups[i].rows() < 1000 ? own : lent": True,
    "groups[i].x.size(0) >= 1000 ? lent : own": True,
    "groups[i].rows() > 128 && groups[i].rows() < 400 ? lent : own": True,
    "lent": True,
    "groups[i].rows() > 9000 ? lent : own": False,
    "groups[i].x.size(0) < 8 ? lent : own": False,
    "own": False,
}


@pytest.mark.parametrize("choice", CHOICES)
def test_what_runs_a_group_is_chosen_by_rows_that_are_known(choice: str, tmp_path: Path, few_experts: Path) -> None:
    path = tmp_path / "answer.py"
    path.write_text(PROGRAM.replace("CHOICE", choice))
    report = lint([path], problem="06_sonic_moe_swiglu", problems_dir=few_experts, raise_errors=True).files[0]
    leak = CHOICES[choice]
    assert report.verdict == ("rubric_leak" if leak else "clean"), (report.findings, report.unread, report.promises)
    assert {promise.id: promise.state for promise in report.promises}["authored-compute"] == (
        "broken" if leak else "kept"
    )
    assert not leak or {"KBH114", "KBH115"} & {finding.rule for finding in report.findings}


ENDS = "const int* ends = host.data_ptr<int>();"
COPIES = {
    "a vector of all between two pointers": "std::vector<int> ends(at, at + host.numel());",
    "a vector that is given them": "std::vector<int> ends; ends.assign(at, at + host.size(0));",
    "what they are copied into": "std::vector<int> ends(host.numel()); std::copy(at, at + ends.size(), ends.begin());",
    "so many": "std::vector<int64_t> ends(host.numel()); std::copy_n(at, gate.size(0) + 1, ends.data());",
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize(("choice", "verdict"), [("? own : lent", "rubric_leak"), ("? lent : own", "clean")])
def test_offsets_that_are_copied_are_the_same(
    how: str, choice: str, verdict: str, tmp_path: Path, few_experts: Path
) -> None:
    assert PROGRAM.count(ENDS) == 1
    path = tmp_path / "answer.py"
    text = PROGRAM.replace(ENDS, f"const int* at = host.data_ptr<int>(); {COPIES[how]}")
    path.write_text(text.replace("CHOICE", f"groups[i].rows() < 100 {choice}"))
    report = lint([path], problem="06_sonic_moe_swiglu", problems_dir=few_experts, raise_errors=True).files[0]
    assert report.verdict == verdict, (report.unread, report.promises)
