"""Offsets of which a few elements say that all groups are of one size, and offsets that are read in whatever way."""

from __future__ import annotations

from pathlib import Path

import pytest
from expert_programs import WEIGHTS, leaks, program
from linted import cases

KERNEL = """
@triton.jit
def even(offsets, each, E):
    return tl.load(offsets + 1) == each and tl.load(offsets + E - 1) == each * (E - 1)

@triton.jit
def swiglu(x, gate, up, offsets, y, rows_of_all, H, I, E: tl.constexpr, B: tl.constexpr, EP: tl.constexpr):
    one, other = tl.program_id(0), tl.program_id(1)
    cols = tl.program_id(2) * B + tl.arange(0, B)
    each = rows_of_all // E
BODY
    for row in range(first + other * B, end, B * tl.num_programs(1)):
        rows = row + tl.arange(0, B)
        product(x, gate, up, y, rows, rows < end, cols, one, H, I, B)
"""
FORWARD = """
EP = triton.next_power_of_2(E)
grid = (E, 4, I // B)
swiglu[grid](hidden_states, *weights, expert_offsets, y, rows, H, I, E=E, B=B, EP=EP)
"""
FEW = cases("""\
# two of them
if even(offsets, each, E):
    first, end = one * each, (one + 1) * each
else:
    first, end = tl.load(offsets + one), tl.load(offsets + one + 1)
# the first count
first, end = one * each, one * each + each
if tl.load(offsets + 1) - tl.load(offsets) != each:
    first, end = tl.load(offsets + one), tl.load(offsets + one + 1)
# a choice
first, end = tl.load(offsets + one), tl.load(offsets + one + 1)
level = even(offsets, each, E)
first, end = tl.where(level, one * each, first), tl.where(level, one * each + each, end)
# about as much as a share
first, end = one * each, one * each + each
middle = tl.load(offsets + E // 2) - each * (E // 2)
if middle > 64 or middle < -64:
    first, end = tl.load(offsets + one), tl.load(offsets + one + 1)
# through a pointer of its own
second = offsets + 1
if tl.load(second) == each:
    first, end = one * each, one * each + each
else:
    first, end = tl.load(second + one - 1), tl.load(second + one)
""")
ALL = cases("""\
# no question
first, end = tl.load(offsets + one), tl.load(offsets + one + 1)
# all counts
e = tl.arange(0, EP)
count = tl.load(offsets + e + 1, mask=e < E, other=0) - tl.load(offsets + e, mask=e < E, other=0)
first, end = one * each, one * each + each
if tl.sum(tl.where(e < E, (count != each).to(tl.int32), 0)) != 0:
    first, end = tl.load(offsets + one), tl.load(offsets + one + 1)
# all, one after the other
level = True
for e in range(1, E):
    level = level & (tl.load(offsets + e) == e * each)
first, end = one * each, one * each + each
if not level:
    first, end = tl.load(offsets + one), tl.load(offsets + one + 1)
# its own two
first, end = one * each, one * each + each
if tl.load(offsets + one) != first or tl.load(offsets + one + 1) != end:
    first, end = tl.load(offsets + one), tl.load(offsets + one + 1)
# one group has it all
first, end = 0, rows_of_all
if tl.load(offsets + 1) == rows_of_all:
    if one > 0:
        return
else:
    first, end = tl.load(offsets + one), tl.load(offsets + one + 1)
# there is nothing to do
if tl.load(offsets + E) == 0:
    return
first, end = tl.load(offsets + one), tl.load(offsets + one + 1)
# the same way twice
if even(offsets, each, E):
    first, end = tl.load(offsets + one), tl.load(offsets + one + 1)
else:
    first, end = tl.load(offsets + one, eviction_policy="evict_first"), tl.load(offsets + one + 1)
""")


def _program(body: str) -> str:
    return program(KERNEL.replace("BODY", "\n".join(f"    {line}" for line in body.splitlines())), FORWARD)


@pytest.mark.parametrize("how", FEW)
def test_a_few_offsets_that_stand_for_all_are_told(tmp_path: Path, how: str) -> None:
    found, state = leaks(tmp_path, _program(FEW[how]))
    assert state == {"broken"} and any("expert_offsets" in message for message in found), (found, state)


@pytest.mark.parametrize("how", ALL)
def test_offsets_that_are_all_read_are_kept(tmp_path: Path, how: str) -> None:
    assert leaks(tmp_path, _program(ALL[how])) == ([], {"kept"})


def test_a_launch_for_each_group_asks_for_its_own_offsets(tmp_path: Path) -> None:
    kernel = KERNEL.replace("BODY", "    first, end = tl.load(offsets + group), tl.load(offsets + group + 1)")
    kernel = kernel.replace("rows_of_all, H", "rows_of_all, group, H").replace("cols, one,", "cols, group,")
    forward = "for e in range(E):\n" + "".join(
        f"    {line}\n" for line in FORWARD.replace("rows, H", "rows, e, H").strip().splitlines()
    )
    assert leaks(tmp_path, program(kernel, forward)) == ([], {"kept"})


CUDA = f'''# kbh: problem=06_sonic_moe_swiglu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
using bf16 = __nv_bfloat16;
__global__ void swiglu(const bf16* x, const bf16* gate, const bf16* up, const int* offsets, bf16* y, int T, int E,
                       int H, int I) {{
    const int e = blockIdx.y, each = T / E;
    int first, end;
    BODY
    for (int row = first; row < end; ++row)
        for (int c = threadIdx.x; c < I; c += blockDim.x) {{
            float g = 0.f, u = 0.f;
            for (int h = 0; h < H; ++h) {{
                const float v = __bfloat162float(x[(size_t)row * H + h]);
                g += v * __bfloat162float(gate[((size_t)e * H + h) * I + c]);
                u += v * __bfloat162float(up[((size_t)e * H + h) * I + c]);
            }}
            y[(size_t)row * I + c] = __float2bfloat16(g / (1.f + expf(-g)) * u);
        }}
}}
torch::Tensor run(torch::Tensor x, torch::Tensor gate, torch::Tensor up, torch::Tensor offsets) {{
    int T = x.size(0), H = x.size(1), E = gate.size(0), I = gate.size(2);
    auto y = torch::empty({{T, I}}, x.options());
    swiglu<<<dim3(1, E), 256>>>((bf16*)x.data_ptr(), (bf16*)gate.data_ptr(), (bf16*)up.data_ptr(),
        offsets.data_ptr<int>(), (bf16*)y.data_ptr(), T, E, H, I);
    return y;
}}
"""
DECLARED = "torch::Tensor run(torch::Tensor x, torch::Tensor gate, torch::Tensor up, torch::Tensor offsets);"
extension = load_inline(name="swiglu", cpp_sources=DECLARED, cuda_sources=SOURCE, functions=["run"])

{WEIGHTS}
    def forward(self, hidden_states, expert_offsets):
        return extension.run(hidden_states, self.W_gate, self.W_up, expert_offsets)
'''
CUDA_FEW = cases("""\
# two of them
if (offsets[1] == each && __ldg(offsets + E / 2) == E / 2 * each) { first = e * each; end = first + each; }
else { first = offsets[e]; end = offsets[e + 1]; }
# a choice
const bool level = offsets[1] == each && offsets[2] == 2 * each;
first = level ? e * each : offsets[e];
end = level ? first + each : offsets[e + 1];
""")
CUDA_ALL = cases("""\
# no question
first = offsets[e]; end = offsets[e + 1];
# its own two
first = e * each; end = first + each;
if (offsets[e] != first || offsets[e + 1] != end) { first = offsets[e]; end = offsets[e + 1]; }
# all, one after the other
bool level = true;
for (int i = 1; i < E; ++i) level = level && offsets[i] == i * each;
if (level) { first = e * each; end = first + each; }
else { first = offsets[e]; end = offsets[e + 1]; }
""")


@pytest.mark.parametrize("how", CUDA_FEW)
def test_a_few_offsets_that_stand_for_all_are_told_in_cuda(tmp_path: Path, how: str) -> None:
    found, state = leaks(tmp_path, CUDA.replace("BODY", CUDA_FEW[how]))
    assert state == {"broken"} and any("expert_offsets" in message for message in found), (found, state)


@pytest.mark.parametrize("how", CUDA_ALL)
def test_offsets_that_are_all_read_are_kept_in_cuda(tmp_path: Path, how: str) -> None:
    assert leaks(tmp_path, CUDA.replace("BODY", CUDA_ALL[how])) == ([], {"kept"})
