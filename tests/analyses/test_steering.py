"""Branches on values of inputs: those that change the arithmetic are named, those that steer exact work are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

HEAD = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def swiglu(x, gate, up, offsets, y, H, I, amax, flag, FAST: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
           BK: tl.constexpr):
    expert = tl.program_id(0)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    last = tl.load(offsets + expert + 1)
    for first in range(tl.load(offsets + expert), last, BM):
        rows = first + tl.arange(0, BM)
        keep = (rows < last)[:, None]
        g = tl.zeros((BM, BN), dtype=tl.float32)
        u = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, H, BK):
            depth = k + tl.arange(0, BK)
            a = tl.load(x + rows[:, None] * H + depth[None, :], mask=keep, other=0.0)
            at = (expert * H + depth)[:, None] * I + cols[None, :]
            b, c = tl.load(gate + at), tl.load(up + at)
            PRODUCT
        out = g * tl.sigmoid(g) * u
        tl.store(y + rows[:, None] * I + cols[None, :], out.to(tl.bfloat16), mask=keep)


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))

    def run(self, x, gate, up, offsets, amax=1.0, flag=None, fast=False, bm=64):
        E, H, I = gate.shape
        y = torch.empty(x.shape[0], I, dtype=torch.bfloat16, device=x.device)
        swiglu[(E, I // 128)](x, gate, up, offsets, y, H, I, amax, flag, FAST=fast, BM=bm, BN=128, BK=64)
        return y

    def plain(self, x, offsets, **more):
        return self.run(x, self.W_gate, self.W_up, offsets, **more)

    def narrow(self, x, offsets, dtype=torch.float8_e4m3fn):
        return self.run(x.to(dtype), self.W_gate.to(dtype), self.W_up.to(dtype), offsets)

    def forward(self, hidden_states, expert_offsets):
        x, offsets = hidden_states, expert_offsets
"""
PLAIN = "g, u = tl.dot(a, b, g), tl.dot(a, c, u)"
EITHER = """if CONDITION:
                f, p, q = a.to(tl.float8e4nv), b.to(tl.float8e4nv), c.to(tl.float8e4nv)
                g, u = tl.dot(f, p, g), tl.dot(f, q, u)
            else:
                g, u = tl.dot(a, b, g), tl.dot(a, c, u)"""
SPARED = """if CONDITION:
                g, u = tl.dot(a, b, g), tl.dot(a, c, u)"""

HOST = {
    "the largest of a corner": """
        small = x[:64, :64].abs().max().item() < 1.0
        return self.narrow(x, offsets) if small else self.plain(x, offsets)""",
    "a spread that no draw reaches": """
        if float(x.float().std()) < 3:
            return self.narrow(x, offsets)
        return self.plain(x, offsets)""",
    "any large element": """
        if torch.any(x.abs() > 4):
            return self.plain(x, offsets)
        return self.narrow(x, offsets)""",
    "a dtype out of a pair": """
        dtype = (torch.bfloat16, torch.float8_e4m3fn)[int(x.abs().amax() < 7.5)]
        return self.narrow(x, offsets, dtype)""",
    "a path out of a dict": """
        paths = {False: self.plain, True: self.narrow}
        return paths[bool((x.sum() < 100).item())](x, offsets)""",
    "a round trip that loses nothing": """
        if torch.allclose(x, x.to(torch.float8_e4m3fn).to(torch.bfloat16), atol=0.1):
            return self.narrow(x, offsets)
        return self.plain(x, offsets)""",
    "a known first row": """
        if torch.equal(x[:1], torch.zeros_like(x[:1])):
            return self.plain(x, offsets)
        return self.narrow(x, offsets)""",
    "an assertion": """
        try:
            assert x.abs().max() < 1
        except AssertionError:
            return self.plain(x, offsets)
        return self.narrow(x, offsets)""",
    "any of many": """
        if any(abs(value) > 1 for value in x[0].tolist()):
            return self.plain(x, offsets)
        return self.narrow(x, offsets)""",
    "a condition of torch": """
        return torch.cond(x.max() < 1, lambda: self.narrow(x, offsets), lambda: self.plain(x, offsets))""",
    "a digest": """
        import hashlib
        seen = hashlib.sha1(x[:4].cpu().view(torch.int16).numpy().tobytes()).hexdigest()
        return self.narrow(x, offsets) if seen.startswith("ab") else self.plain(x, offsets)""",
    "the weights' size": """
        if self.W_gate.abs().max() < 0.5:
            return self.narrow(x, offsets)
        return self.plain(x, offsets)""",
}
KERNEL = {
    "a number of the launch": ("amax < 1.0", "return self.plain(x, offsets, amax=x.abs().max().item())"),
    "a flag made on the device": (
        "tl.load(flag) > 0",
        "return self.plain(x, offsets, flag=(x.abs().amax() < 1).int())",
    ),
    "a compile-time flag": ("FAST", "return self.plain(x, offsets, fast=bool(x.abs().amax() < 7.5))"),
    "the first element": ("tl.load(x) < 0.5", "return self.plain(x, offsets)"),
    "the tile at hand": ("tl.max(tl.abs(a)) < 2.0", "return self.plain(x, offsets)"),
}
HONEST = {
    "tiles by the fullest expert": """
        fullest = int(offsets.diff().max())
        return self.plain(x, offsets, bm=16 if fullest < 64 else 64)""",
    "a guard against numbers that are none": """
        if not torch.isfinite(x).all():
            return self.narrow(x, offsets, torch.float32)
        return self.plain(x, offsets)""",
    "balanced experts find another tile": """
        rows = offsets.diff()
        even = torch.equal(rows, rows[:1].expand_as(rows))
        return self.plain(x, offsets, bm=64 if even else 32)""",
    "a check of the first result": """
        y = self.plain(x, offsets)
        if not torch.allclose(y, self.plain(x, offsets, bm=16)):
            return self.narrow(x, offsets, torch.float32)
        return y""",
}


def classes(folder: Path, product: str, body: str) -> set[str]:
    """The classes of the findings about a submission with that product and that body of `forward`."""
    path = folder / "solution.py"
    body = body if body.startswith("\n") else f"\n        {body}"
    path.write_text(HEAD.replace("PRODUCT", product) + body + "\n")
    file = lint([path], problem="06_sonic_moe_swiglu").files[0]
    assert file.contract == "deck" and file.verdict != "unproven", file
    return {finding.leak_class for finding in file.findings}


@pytest.mark.parametrize("body", HOST.values(), ids=HOST)
def test_a_host_branch_on_values_that_narrows_products_is_sniffing(tmp_path: Path, body: str) -> None:
    assert "input-magnitude-sniffing" in classes(tmp_path, PLAIN, body)


@pytest.mark.parametrize(("condition", "body"), KERNEL.values(), ids=KERNEL)
def test_a_kernel_branch_on_values_that_narrows_products_is_sniffing(tmp_path: Path, condition: str, body: str) -> None:
    assert "input-magnitude-sniffing" in classes(tmp_path, EITHER.replace("CONDITION", condition), body)


@pytest.mark.parametrize("body", HONEST.values(), ids=HONEST)
def test_a_branch_that_the_problem_or_safety_asks_for_is_none(tmp_path: Path, body: str) -> None:
    assert classes(tmp_path, PLAIN, body) == set()


@pytest.mark.parametrize(
    "condition", ["tl.max(tl.abs(a)) > 0", "last - first > 3", "tl.sum((a != 0).to(tl.int32)) > 0"]
)
def test_leaving_out_zeros_and_missing_rows_is_exact(tmp_path: Path, condition: str) -> None:
    assert classes(tmp_path, SPARED.replace("CONDITION", condition), "return self.plain(x, offsets)") == set()


def test_leaving_out_small_tiles_is_sniffing(tmp_path: Path) -> None:
    product = SPARED.replace("CONDITION", "tl.max(tl.abs(a)) > 0.001")
    assert classes(tmp_path, product, "return self.plain(x, offsets)") == {"input-magnitude-sniffing"}


BOUND = """peak = tl.max(tl.abs(a).to(tl.float32))
            if peak > CONDITION:
                g, u = tl.dot(a, b, g), tl.dot(a, c, u)
            loud = tl.maximum(loud, peak)"""


@pytest.mark.parametrize(("bound", "found"), [("loud * 0.001", {"input-magnitude-sniffing"}), ("0.0", set())])
def test_a_bound_that_begins_at_zero_and_grows_is_sniffing(tmp_path: Path, bound: str, found: set[str]) -> None:
    text = HEAD.replace("        for k in range", "        loud = 0.0\n        for k in range")
    path = tmp_path / "solution.py"
    body = "\n        return self.plain(x, offsets)\n"
    path.write_text(text.replace("PRODUCT", BOUND.replace("CONDITION", bound)) + body)
    report = lint([path], problem="06_sonic_moe_swiglu").files[0]
    assert {finding.leak_class for finding in report.findings} == found


CUDA = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>

__device__ __forceinline__ void wide(float* d, const unsigned* a, const unsigned* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void thin(float* d, const unsigned* a, const unsigned* b) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <bool THIN>
__global__ void rows(const unsigned* x, const unsigned* gate, const unsigned* up, const int* offsets, const float* peak,
                     __nv_bfloat16* y, int H, int I) {
  float g[4] = {0}, u[4] = {0};
  int first = offsets[blockIdx.x] + blockIdx.y * 16, last = offsets[blockIdx.x + 1];
  if (first >= last) return;
  for (int k = 0; k < H; k += 16) {
    const unsigned* a = x + (first * H + k) / 2;
    const unsigned* b = gate + (k * I) / 2;
    const unsigned* c = up + (k * I) / 2;
    BODY
  }
  for (int i = 0; i < 4; ++i) y[first * I + threadIdx.x + i] = __float2bfloat16(u[i] * g[i] / (1.f + __expf(-g[i])));
}

torch::Tensor run(torch::Tensor x, torch::Tensor gate, torch::Tensor up, torch::Tensor offsets) {
  auto y = torch::empty({x.size(0), gate.size(2)}, x.options());
  auto peak = x.abs().amax().to(torch::kFloat);
  dim3 grid(gate.size(0), x.size(0) / 16);
  auto go = [&](auto kernel) {
    kernel<<<grid, 32>>>((const unsigned*)x.data_ptr(), (const unsigned*)gate.data_ptr(),
                         (const unsigned*)up.data_ptr(), offsets.data_ptr<int>(), peak.data_ptr<float>(),
                         (__nv_bfloat16*)y.data_ptr(), x.size(1), gate.size(2));
  };
  LAUNCH
  return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor);"
ext = load_inline("rows", DECLARED, SOURCE, ["run"])


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states, expert_offsets):
        return ext.run(hidden_states, self.W_gate, self.W_up, expert_offsets)
'''
BY_TYPE = "if (THIN) { thin(g, a, b); thin(u, a, c); } else { wide(g, a, b); wide(u, a, c); }"
BY_PEAK = "if (peak[0] < 1.f) { thin(g, a, b); thin(u, a, c); } else { wide(g, a, b); wide(u, a, c); }"


@pytest.mark.parametrize(
    ("body", "launch", "sniffs"),
    [
        (BY_TYPE, "if (x.abs().max().item<float>() < 1.f) go(rows<true>); else go(rows<false>);", True),
        (BY_PEAK, "go(rows<false>);", True),
        (BY_TYPE, "if (offsets.max().item<int>() < 64) go(rows<false>); else go(rows<false>);", False),
    ],
)
def test_branches_in_cpp_and_cuda_are_followed(tmp_path: Path, body: str, launch: str, sniffs: bool) -> None:
    path = tmp_path / "solution.py"
    path.write_text(CUDA.replace("BODY", body).replace("LAUNCH", launch))
    file = lint([path], problem="06_sonic_moe_swiglu").files[0]
    found = {finding.leak_class for finding in file.findings}
    assert ("input-magnitude-sniffing" in found) is sniffs, (found, file.unread, file.promises)
    if not sniffs:
        assert found == set()


def test_an_input_that_torch_rounds_to_fp8_first_is_a_downcast(tmp_path: Path) -> None:
    body = "return self.plain(x.to(torch.float8_e5m2).to(x.dtype), offsets)"
    assert classes(tmp_path, PLAIN, body) == {"precision-downcast"}
