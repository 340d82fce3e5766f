"""The rotation of 09 in one plain CUDA kernel, and the submission around it, of which tests write the host's part."""

from __future__ import annotations

# DECLARED stands before the kernel, PARAMETERS are those for the positions, POSITION is that of a channel.
KERNEL = """
#include <torch/extension.h>
#include <cuda_bf16.h>
using bf16 = __nv_bfloat16;
DECLARED
__global__ void rotate(const bf16* x, PARAMETERS, const bf16* c, const bf16* s, bf16* y, int T, int H, int D, int s0,
                       int s1) {
  int token = blockIdx.x, head = blockIdx.y, d = threadIdx.x, half = D / 2, at = d % half;
  int64_t pos = POSITION;
  float mine = __bfloat162float(x[(token * H + head) * D + d]);
  float other = __bfloat162float(x[(token * H + head) * D + (d + half) % D]);
  float by = __bfloat162float(s[pos * D + d]), turned = mine * __bfloat162float(c[pos * D + d]);
  turned += d < half ? -other * by : other * by;
  y[((token / T * H + head) * T + token % T) * D + d] = __float2bfloat16(turned);
}
"""
# The host's function: GIVEN are its tensors of positions, BEFORE what it does, TAKEN what it launches with.
HOST = """at::Tensor run(at::Tensor x, GIVEN, at::Tensor c, at::Tensor s, int64_t s0, int64_t s1) {
  int B = x.size(0), T = x.size(1), H = x.size(2), D = x.size(3);
  auto y = at::empty({B, H, T, D}, x.options());
  BEFORE
  rotate<<<dim3(B * T, H), D>>>((const bf16*)x.data_ptr(), TAKEN, (const bf16*)c.data_ptr(), (const bf16*)s.data_ptr(),
                                (bf16*)y.data_ptr(), T, H, D, s0, s1);
  return y;
}
"""
MODEL = """
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    "rotation", "at::Tensor run(at::Tensor x, GIVEN, at::Tensor c, at::Tensor s, int64_t s0, int64_t s1);",
    r'''CUDA''', functions=["run"],
)


class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.first, self.second, _ = mrope_section
        self.register_buffer("cos_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("sin_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))

    def turned(self, x, *positions):
        return ext.run(x, *positions, self.cos_cache, self.sin_cache, self.first, self.second)

    def forward(self, q, k, pos_t, pos_h, pos_w):
        positions = POSITIONS
        return self.turned(q, *positions), self.turned(k, *positions)
"""


def submission(
    declared: str, parameters: str, position: str, given: str, before: str, taken: str, positions: str
) -> str:
    """The submission with these parts; `positions` are what `run` is given, as Python writes a tuple."""
    parts = {
        "DECLARED": declared, "PARAMETERS": parameters, "POSITION": position, "GIVEN": given, "BEFORE": before,
        "TAKEN": taken,
    }  # fmt: skip
    code = MODEL.replace("POSITIONS", positions).replace("CUDA", KERNEL + HOST)
    for name, part in parts.items():
        code = code.replace(name, part)
    return code


def twin(code: str) -> str:
    """The same with the time positions three times, so that the other two reach nothing."""
    before, mark, after = code.rpartition("positions = ")
    return before + mark + after.replace("pos_h", "pos_t").replace("pos_w", "pos_t")
