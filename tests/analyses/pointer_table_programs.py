"""Parts of programs whose kernels find their tensors behind a table of pointers, and what the linter says of them."""

from __future__ import annotations

from pathlib import Path

from linted import report_of

HEAD = """# kbh: problem=06_sonic_moe_swiglu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
"""
MODEL = """

class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.kept = None

    def forward(self, hidden_states, expert_offsets):
        E, H, I = self.W_gate.shape
        dev = hidden_states.device
"""
MULTIPLY = r"""
  for (int row = blockIdx.y; row < rows; row += gridDim.y) {
    float g = 0.f, u = 0.f;
    for (int k = 0; k < H; ++k) {
      const float v = __bfloat162float(x[(long)row * H + k]);
      g += v * __bfloat162float(gate[(long)k * I + col]);
      u += v * __bfloat162float(up[(long)k * I + col]);
    }
    y[(long)row * I + col] = __float2bfloat16(g / (1.f + __expf(-g)) * u);
  }
}
"""
START = "const int e = blockIdx.z, col = blockIdx.x * blockDim.x + threadIdx.x;\n  if (col >= I) return;"
INCLUDES = """
#include <torch/extension.h>
#include <cuda_bf16.h>
#include <vector>
using bf16 = __nv_bfloat16;
"""
BY_TABLES = f"""{INCLUDES}
__global__ void grouped(const bf16* const* xs, const bf16* const* gates, const bf16* const* ups, bf16* const* ys,
                        const int* counts, int H, int I) {{
  {START}
  const bf16 *x = xs[e], *gate = gates[e], *up = ups[e];
  bf16* y = ys[e];
  const int rows = counts[e];{MULTIPLY}"""


def linted(tmp_path: Path, text: str) -> tuple[str, set[str], dict[str, str]]:
    report = report_of(tmp_path, text)
    classes = {f.leak_class for f in report.findings if f.leak_class}
    return str(report.verdict), classes, {p.id: str(p.state) for p in report.promises}


def cuda(source: str, declared: str, body: str = "") -> str:
    load = f'SOURCE = r"""{source}"""\next = load_inline("g", "{declared}", SOURCE, functions=["run"])\n'
    body = body or "        return ext.run(hidden_states, self.W_gate, self.W_up, expert_offsets)\n"
    return HEAD + load + MODEL + body.replace("LAUNCH", "ext.run(xs, gates, ups, ys, n, H, I)")
