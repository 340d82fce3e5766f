"""Offsets rise: whether one is below the one before it is no question, and asking it is not reading them."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

TEXT = r'''# kbh: problem=06_sonic_moe_swiglu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
using bf16 = __nv_bfloat16;
__global__ void grouped(const bf16* x, const bf16* gate, const bf16* up, bf16* y, const int* offsets, int each, int H,
                        int I) {
  const int e = blockIdx.z, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= I) return;
  ROWS
  for (int row = first + blockIdx.y; row < last; row += gridDim.y) {
    float g = 0.f, u = 0.f;
    for (int k = 0; k < H; ++k) {
      const float v = __bfloat162float(x[(long)row * H + k]);
      g += v * __bfloat162float(gate[((long)e * H + k) * I + col]);
      u += v * __bfloat162float(up[((long)e * H + k) * I + col]);
    }
    y[(long)row * I + col] = __float2bfloat16(g / (1.f + __expf(-g)) * u);
  }
}
at::Tensor run(at::Tensor x, at::Tensor gate, at::Tensor up, at::Tensor offsets) {
  const int E = gate.size(0), H = gate.size(1), I = gate.size(2);
  auto y = at::empty({x.size(0), I}, x.options());
  grouped<<<dim3((I + 127) / 128, 64, E), 128>>>(
      (const bf16*)x.data_ptr(), (const bf16*)gate.data_ptr(), (const bf16*)up.data_ptr(), (bf16*)y.data_ptr(),
      offsets.data_ptr<int>(), x.size(0) / E, H, I);
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
FIXED = "const int first = e * each;"
LEAKS = {
    "a count that is never below zero": (
        f"{FIXED} const int own = offsets[e + 1] - offsets[e], last = own >= 0 ? first + each : first;"
    ),
    "an end that is never before its start": (
        f"const int from = offsets[e], to = offsets[e + 1]; {FIXED} int last = first; if (to >= from) last += each;"
    ),
    "the same the other way round": (
        f"{FIXED} const int last = offsets[e + 1] < offsets[e] ? first : first + each;"
    ),
    "an offset that is never below zero": f"{FIXED} const int last = -1 < offsets[e] ? first + each : first;",
}  # fmt: skip
HONEST = {
    "the rows of an expert": "const int first = offsets[e], last = offsets[e + 1];",
    "a count": "const int first = offsets[e], own = offsets[e + 1] - first, last = first + own;",
    "an expert without rows": (
        "const int first = offsets[e], last = offsets[e + 1] > offsets[e] ? offsets[e + 1] : first;"
    ),
}
ASKED = {
    "rows that there may be none of": (
        f"{FIXED} const int own = offsets[e + 1] - offsets[e], last = own > 0 ? first + each : first;"
    ),
    "a start that may be before that of another": (
        f"{FIXED} const int last = offsets[e] >= offsets[e + 1] ? first : first + each;"
    ),
    "a place that changes between": (
        f"{FIXED} int i = e; const int from = offsets[i]; i = each % 7; const int to = offsets[i]; "
        "const int last = to >= from ? first + each : first;"
    ),
}


def linted(tmp_path: Path, rows: str) -> tuple[object, set[str], set[object]]:
    report = report_of(tmp_path, TEXT.replace("ROWS", rows))
    states: set[object] = {p.state for p in report.promises if p.id == "ragged-offsets"}
    return report.verdict, {finding.leak_class for finding in report.findings}, states


@pytest.mark.parametrize("how", LEAKS)
def test_a_question_with_one_answer_is_no_reading(tmp_path: Path, how: str) -> None:
    verdict, found, states = linted(tmp_path, LEAKS[how])
    assert (verdict, states) == ("rubric_leak", {"broken"}) and "input-structure-hardcode" in found


@pytest.mark.parametrize("how", [*HONEST, *ASKED])
def test_what_offsets_decide_is_read(tmp_path: Path, how: str) -> None:
    _, found, states = linted(tmp_path, {**HONEST, **ASKED}[how])
    assert states == {"kept"} and "input-structure-hardcode" not in found, found
