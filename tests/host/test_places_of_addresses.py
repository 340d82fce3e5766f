"""What a CUDA kernel is given instead of plain pointers: accessors of torch, structs of addresses, a table in constant
memory. The rotation of 09; the twin of each gives the time positions three times."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import lint, states

SOURCE = """
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
at::Tensor run(at::Tensor x, at::Tensor t, at::Tensor h, at::Tensor w, at::Tensor c, at::Tensor s, int64_t s0,
               int64_t s1) {
  int B = x.size(0), T = x.size(1), H = x.size(2), D = x.size(3);
  auto y = at::empty({B, H, T, D}, x.options());
  BEFORE
  rotate<<<dim3(B * T, H), D>>>((const bf16*)x.data_ptr(), GIVEN, (const bf16*)c.data_ptr(), (const bf16*)s.data_ptr(),
                                (bf16*)y.data_ptr(), T, H, D, s0, s1);
  return y;
}
"""
MODEL = """
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SIGNATURE = (
    "at::Tensor run(at::Tensor x, at::Tensor t, at::Tensor h, at::Tensor w, at::Tensor c, at::Tensor s, int64_t s0,"
    "int64_t s1);"
)
ext = load_inline("rotation", SIGNATURE, r'''CUDA''', functions=["run"])


class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.first, self.second, _ = mrope_section
        self.register_buffer("cos_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("sin_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))

    def turned(self, x, *positions):
        return ext.run(x, *positions, self.cos_cache, self.sin_cache, self.first, self.second)

    def forward(self, q, k, pos_t, pos_h, pos_w):
        return self.turned(q, pos_t, pos_h, pos_w), self.turned(k, pos_t, pos_h, pos_w)
"""
ACCESSOR = "at::PackedTensorAccessor32<int64_t, 2>"
ADDRESSES = "t.data_ptr<int64_t>(), h.data_ptr<int64_t>(), w.data_ptr<int64_t>()"
AXIS = "at < s0 ? 0 : at < s0 + s1 ? 1 : 2"
# What is declared, the parameters, the position of a channel, what the host does before the launch, what it gives.
WAYS = {
    "accessors": (
        "", f"{ACCESSOR} p0, {ACCESSOR} p1, {ACCESSOR} p2",
        "at < s0 ? p0[token / T][token % T] : at < s0 + s1 ? p1[token / T][token % T] : p2[token / T][token % T]", "",
        ", ".join(f"{one}.packed_accessor32<int64_t, 2>()" for one in "thw"),
    ),
    "a struct": ("struct Axes { const int64_t* p[3]; };", "Axes axes", f"axes.p[{AXIS}][token]",
                 f"Axes axes{{{{{ADDRESSES}}}}};", "axes"),
    "shared memory": ("", "const int64_t* p0, const int64_t* p1, const int64_t* p2",
                      f"[&] {{ __shared__ int64_t held[3]; if (threadIdx.x == 0) {{ held[0] = p0[token]; "
                      f"held[1] = p1[token]; held[2] = p2[token]; }} __syncthreads(); return held[{AXIS}]; }}()", "",
                      ADDRESSES),
}  # fmt: skip


def program(declared: str, parameters: str, position: str, before: str, given: str) -> str:
    cuda = SOURCE.replace("DECLARED", declared).replace("PARAMETERS", parameters).replace("POSITION", position)
    return MODEL.replace("CUDA", cuda.replace("BEFORE", before).replace("GIVEN", given))


@pytest.mark.parametrize("way", WAYS)
def test_positions_reach_the_kernel_by_any_way(tmp_path: Path, way: str) -> None:
    code = program(*WAYS[way])
    assert states(lint(tmp_path, code, "09_fmha_preattn_mrope")) == {"authored-compute": "kept"}
    twin = code
    for x in "qk":
        twin = twin.replace(f"turned({x}, pos_t, pos_h, pos_w)", f"turned({x}, pos_t, pos_t, pos_t)")
    assert states(lint(tmp_path, twin, "09_fmha_preattn_mrope")) == {"authored-compute": "broken"}


def test_addresses_in_constant_memory_are_not_followed(tmp_path: Path) -> None:
    before = f"const int64_t* host[3] = {{{ADDRESSES}}}; cudaMemcpyToSymbol(places, host, sizeof(host));"
    code = program("__constant__ const int64_t* places[3];", "int none", f"places[{AXIS}][token]", before, "0")
    assert states(lint(tmp_path, code, "09_fmha_preattn_mrope")) == {"authored-compute": "unproven"}
