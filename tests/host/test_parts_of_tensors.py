"""Parts of a tensor that C++ takes by bounds, and who writes the rows of each expert: a library or a kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import lint, reasons, states

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
__global__ void rows_of(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int n, int H, int I) {
  int r = blockIdx.x, c = blockIdx.y * blockDim.x + threadIdx.x;
  float sum = 0.f;
  for (int k = 0; k < H; ++k) sum += __bfloat162float(x[(size_t)r * H + k]) * __bfloat162float(w[(size_t)k * I + c]);
  if (r < n) y[(size_t)r * I + c] = __float2bfloat16(sum);
}
__global__ void join(const __nv_bfloat16* g, const __nv_bfloat16* u, __nv_bfloat16* y, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = __bfloat162float(g[i]);
  y[i] = __float2bfloat16(a / (1.f + expf(-a)) * __bfloat162float(u[i]));
}
static __nv_bfloat16* raw(const at::Tensor& t) { return reinterpret_cast<__nv_bfloat16*>(t.data_ptr()); }
static void multiply(at::Tensor y, const at::Tensor& x, const at::Tensor& w) { MULTIPLY }
at::Tensor run(at::Tensor x, at::Tensor gate, at::Tensor up, at::Tensor offsets) {
  auto host = offsets.cpu();
  const int* at = host.data_ptr<int>();
  auto g = at::empty({x.size(0), gate.size(2)}, x.options()), u = at::empty_like(g), y = at::empty_like(g);
  for (int e = 0; e < gate.size(0); ++e) {
    int first = at[e], last = at[e + 1];
    if (first == last) continue;
    multiply(PART(g), PART(x), gate[e]);
    multiply(PART(u), PART(x), up[e]);
  }
  join<<<(y.numel() + 255) / 256, 256>>>(raw(g), raw(u), raw(y), y.numel());
  return y;
}
"""
HOST = """
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline("parts", cpp_sources="", cuda_sources=SOURCE, functions=["run"])


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states, expert_offsets):
        return ext.run(hidden_states, self.W_gate, self.W_up, expert_offsets)
"""
PARTS = {
    "slice": "t.slice(0, first, last)",
    "slice of a namespace": "at::slice(t, 0, first, last)",
    "narrow": "t.narrow(0, first, last - first)",
    "an index": "t.index({torch::indexing::Slice(first, last)})",
    "an index of two dimensions": 't.index({torch::indexing::Slice(first, last), "..."})',
    "named by a directive": "[&] { using namespace at::indexing; return t.index({Slice(first, last), Ellipsis}); }()",
}
OWN = "rows_of<<<dim3(x.size(0), w.size(1) / 128), 128>>>(raw(x), raw(w), raw(y), x.size(0), x.size(1), w.size(1));"


def program(part: str, multiply: str) -> str:
    text = SOURCE.replace("MULTIPLY", multiply)
    for name in ("g", "u", "x"):
        text = text.replace(f"PART({name})", part.replace("t.", f"{name}.").replace("(t,", f"({name},"))
    return f'SOURCE = r"""{text}"""\n{HOST}'


@pytest.mark.parametrize("part", PARTS)
def test_a_library_that_writes_the_parts_does_the_product(tmp_path: Path, part: str, few_experts: Path) -> None:
    report = lint(tmp_path, program(PARTS[part], "at::mm_out(y, x, w);"), "06_sonic_moe_swiglu", deck=few_experts)
    assert states(report)["authored-compute"] == "broken", (reasons(report), report.trace)


@pytest.mark.parametrize("part", PARTS)
def test_a_kernel_that_writes_the_parts_does_it_by_the_offsets(tmp_path: Path, part: str, few_experts: Path) -> None:
    report = lint(tmp_path, program(PARTS[part], OWN), "06_sonic_moe_swiglu", deck=few_experts)
    assert states(report) == {"authored-compute": "kept", "ragged-offsets": "kept"}, (reasons(report), report.trace)
    assert report.verdict == "clean", reasons(report)
