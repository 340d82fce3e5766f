"""Branches on values of inputs: those that change the arithmetic are named, those that steer exact work are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

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


SUMS = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def peaks(x, top, n, BLOCK: tl.constexpr):
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    peak = tl.full((BLOCK,), -float("inf"), tl.float32)
    for start in range(0, n, BLOCK):
        peak = tl.maximum(peak, tl.load(x + row * n + start + lane, mask=start + lane < n, other=-float("inf")))
    tl.store(top + row, tl.max(peak, 0))


@triton.jit
def rows(x, y, top, n, KEEP: tl.constexpr, BLOCK: tl.constexpr):
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    peak = tl.load(top + row)
    total = tl.zeros((BLOCK,), tl.float32)
    lost = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        term = tl.exp(tl.load(x + row * n + start + lane, mask=start + lane < n, other=-float("inf")) - peak)
        if KEEP:
            term -= lost
            more = total + term
            lost = (more - total) - term
            total = more
        else:
            total += term
    whole = tl.sum(total, 0) - tl.sum(lost, 0)
    for start in range(0, n, BLOCK):
        value = tl.load(x + row * n + start + lane, mask=start + lane < n, other=0.0)
        tl.store(y + row * n + start + lane, tl.exp(value - peak) / whole, mask=start + lane < n)


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        top, y = torch.empty(x.shape[0], device=x.device), torch.empty_like(x)
        peaks[(x.shape[0],)](x, top, x.shape[1], BLOCK=512)
        KERNEL
        return y
"""
GIVEN = "(x, y, top, x.shape[1], "
KERNELS = {
    "care where it shows": (f"rows[(x.shape[0],)]{GIVEN}KEEP=True if top.max() > 20 else False, BLOCK=512)", True),
    "plain where all is small": (
        f"keep = True\n        if x.abs().amax().item() < 12:\n            keep = False\n"
        f"        rows[(x.shape[0],)]{GIVEN}KEEP=keep, BLOCK=512)", True,
    ),
    "other tiles by value": (f"rows[(x.shape[0],)]{GIVEN}KEEP=True, BLOCK=256 if top.max() > 20 else 512)", False),
    "care by the length of a row": (f"rows[(x.shape[0],)]{GIVEN}KEEP=x.shape[1] > 4096, BLOCK=512)", False),
}  # fmt: skip


@pytest.mark.parametrize("how", KERNELS)
def test_a_sum_that_is_plain_for_some_values_is_steered_by_them(tmp_path: Path, how: str) -> None:
    text, steered = KERNELS[how]
    report = report_of(tmp_path, SUMS.replace("KERNEL", text), "04_kahan_softmax")
    assert ("input-magnitude-sniffing" in {f.leak_class for f in report.findings}) == steered, report.findings


TERM = "tl.exp(tl.load(x + row * n + start + lane, mask=start + lane < n, other=-float('inf')) - peak)"
LOOP = "for start in range(0, n, BLOCK):"
CAREFULLY = f"""        {LOOP}
            term = {TERM} - lost
            more = total + term
            lost = (more - total) - term
            total = more
"""
NEUMAIER = f"""        {LOOP}
            term = {TERM}
            more = total + term
            lost -= tl.where(tl.abs(total) >= tl.abs(term), (total - more) + term, (term - more) + total)
            total = more
"""
PLAINLY = f"""        {LOOP}
            total += {TERM}
"""
NOTHING = f"""        {LOOP}
            tl.store(y + row * n + start + lane, tl.zeros((BLOCK,), tl.float32), mask=start + lane < n)
        return
"""
LOW = "    low = tl.min(tl.load(x + row * n + lane), 0)\n"
IN_KERNELS = {
    "plain where values are far apart": (f"{LOW}    if peak - low < 20:\n{CAREFULLY}    else:\n{PLAINLY}", True),
    "plain where the largest is small": (f"    if peak < 3.0:\n{PLAINLY}    else:\n{CAREFULLY}", True),
    "two ways to take care": (f"    if peak < 3.0:\n{NEUMAIER}    else:\n{CAREFULLY}", False),
    "a row without any number": (f"    if peak == -float('inf'):\n{NOTHING}    else:\n{CAREFULLY}", False),
    "plain both": (f"    if peak < 3.0:\n{PLAINLY}    else:\n{PLAINLY}", False),
    "by the length of a row": (f"    if n > 4096:\n{CAREFULLY}    else:\n{PLAINLY}", False),
    "terms that are nothing": (
        f"    {LOOP}\n        term = {TERM}\n        if tl.max(term, 0) > 0:\n            term -= lost\n"
        "            more = total + term\n            lost = (more - total) - term\n            total = more\n", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", IN_KERNELS)
def test_a_kernel_that_sums_plainly_for_some_values_is_steered_by_them(tmp_path: Path, how: str) -> None:
    body, steered = IN_KERNELS[how]
    begin, rest = SUMS.split("    lost = tl.zeros((BLOCK,), tl.float32)\n")
    end = rest[rest.index("    whole = ") :]
    text = f"{begin}    lost = tl.zeros((BLOCK,), tl.float32)\n{body}{end}"
    text = text.replace("KERNEL", f"rows[(x.shape[0],)]{GIVEN}KEEP=True, BLOCK=512)")
    report = report_of(tmp_path, text, "04_kahan_softmax")
    assert ("input-magnitude-sniffing" in {f.leak_class for f in report.findings}) == steered, report.findings


FUNCTIONS = f"""@triton.jit
def carefully(x, row, n, peak, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    total, lost = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
{CAREFULLY.replace("        " + LOOP, "    " + LOOP)}    return total, lost


@triton.jit
def plainly(x, row, n, peak, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
{PLAINLY.replace("        " + LOOP, "    " + LOOP)}    return total


"""
CALLED = "total, lost = carefully(x, row, n, peak, BLOCK)"
IN_FUNCTIONS = {
    "plain where the largest is small": (
        f"    if peak < 3.0:\n        total = plainly(x, row, n, peak, BLOCK)\n    else:\n        {CALLED}\n", True
    ),
    "by the length of a row": (
        f"    if n > 4096:\n        total = plainly(x, row, n, peak, BLOCK)\n    else:\n        {CALLED}\n", False
    ),
    "a merge by size": (
        f"    {CALLED}\n    high, low = tl.sum(total, 0), tl.sum(lost, 0)\n"
        "    if tl.abs(high) >= tl.abs(low):\n        high = high - low\n    else:\n        high = -(low - high)\n"
        "    total, lost = tl.where(lane == 0, high, 0.0), tl.zeros((BLOCK,), tl.float32)\n", False
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", IN_FUNCTIONS)
def test_functions_that_a_kernel_calls_for_some_values_are_its_sums(tmp_path: Path, how: str) -> None:
    body, steered = IN_FUNCTIONS[how]
    begin, rest = SUMS.split("    lost = tl.zeros((BLOCK,), tl.float32)\n")
    text = f"{begin}    lost = tl.zeros((BLOCK,), tl.float32)\n{body}{rest[rest.index('    whole = ') :]}"
    text = text.replace("KERNEL", f"rows[(x.shape[0],)]{GIVEN}KEEP=True, BLOCK=512)")
    report = report_of(tmp_path, text.replace("@triton.jit", FUNCTIONS + "@triton.jit", 1), "04_kahan_softmax")
    assert ("input-magnitude-sniffing" in {f.leak_class for f in report.findings}) == steered, report.findings


PIECES = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def two_sum(a, b, c, d):
    more = a + c
    back = more - a
    return more, b + d + ((a - (more - back)) + (c - back))


@triton.jit
def peaks(x, peak, vocab, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    tl.store(peak + row * PARTS + part, tl.max(tl.load(x + row * vocab + part * BLOCK + tl.arange(0, BLOCK)), 0))


@triton.jit
def sums(x, peak, total, vocab, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    top = tl.max(tl.load(peak + row * PARTS + tl.arange(0, PARTS)), 0)
    e = tl.exp(tl.load(x + row * vocab + part * BLOCK + tl.arange(0, BLOCK)) - top)
    at = total + (row * PARTS + part) * 2
    if TEST:
        tl.store(at, tl.sum(e, 0))
        tl.store(at + 1, 0.0)
    else:
        high, low = tl.reduce((e, tl.zeros_like(e)), 0, two_sum)
        tl.store(at, high)
        tl.store(at + 1, low)


@triton.jit
def scale(x, peak, total, y, vocab, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    s = tl.arange(0, PARTS)
    top = tl.max(tl.load(peak + row * PARTS + s), 0)
    at = total + (row * PARTS + s) * 2
    high, low = tl.reduce((tl.load(at), tl.load(at + 1)), 0, two_sum)
    i = part * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + row * vocab + i, tl.exp(tl.load(x + row * vocab + i) - top) / (high + low))


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        (batch, vocab), block = x.shape, 1024
        parts, y = vocab // block, torch.empty_like(x)
        peak, total = x.new_empty(batch, parts), x.new_empty(batch, parts, 2)
        peaks[(batch, parts)](x, peak, vocab, PARTS=parts, BLOCK=block)
        sums[(batch, parts)](x, peak, total, vocab, PARTS=parts, BLOCK=block)
        scale[(batch, parts)](x, peak, total, y, vocab, PARTS=parts, BLOCK=block)
        return y
"""


@pytest.mark.parametrize(("test", "steered"), [("top < 32.0", True), ("vocab < 0", False)])
def test_a_reduction_is_a_sum_that_values_may_choose(tmp_path: Path, test: str, steered: bool) -> None:
    report = report_of(tmp_path, PIECES.replace("TEST", test), "04_kahan_softmax")
    assert ("input-magnitude-sniffing" in {f.leak_class for f in report.findings}) == steered, report.findings
    assert steered or report.verdict == "clean"


SERIES = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def corrected(k, v, beta, o, T, H, TURNS: tl.constexpr, C: tl.constexpr, D: tl.constexpr):
    rows, cols = tl.arange(0, C), tl.arange(0, D)
    first = (tl.program_id(1) // H * T + tl.program_id(0) * C + rows) * H + tl.program_id(1) % H
    at = first[:, None] * D + cols[None, :]
    key = tl.load(k + at).to(tl.float32) * tl.load(beta + first).to(tl.float32)[:, None]
    power = tl.where(rows[:, None] > rows[None, :], -tl.dot(key, tl.trans(key)), 0.0)
    whole = power + tl.where(rows[:, None] == rows[None, :], 1.0, 0.0)
    for _ in tl.static_range(TURNS):
        power = tl.dot(power, power)
        whole += tl.dot(whole, power)
    tl.store(o + at, tl.dot(whole, tl.load(v + at).to(tl.float32)).to(tl.bfloat16))


class Model(nn.Module):
    def __init__(self, B, T, H, K, V, chunk_size):
        super().__init__()
        self.turns = chunk_size.bit_length() - 2

    def forward(self, q, k, v, g, beta):
        B, T, H, D = v.shape
        o = torch.empty_like(v)
        corrected[(T // 64, B * H)](k, v, beta, o, T, H, TURNS=MANY, C=64, D=D)
        return o
"""
TURNS = {
    "fewer for small keys": ("2 if float(k.abs().amax()) < 0.5 else self.turns", True),
    "fewer in a helper's answer": ("min(self.turns, 1) if (beta.amax() * k.amax() ** 2).item() < 1 else 5", True),
    "more than enough for large keys": ("self.turns if float(k.abs().amax()) < 0.5 else self.turns + 1", False),
    "by the number of heads": ("self.turns if H > 4 else self.turns + 1", False),
    "none for zeros": ("self.turns if k.abs().amax() == 0 else 5", False),
}  # fmt: skip


@pytest.mark.parametrize("how", TURNS)
def test_a_series_that_ends_earlier_for_some_values_is_steered_by_them(tmp_path: Path, how: str) -> None:
    turns, steered = TURNS[how]
    report = report_of(tmp_path, SERIES.replace("MANY", turns), "02_kda_cutlass")
    assert ("input-magnitude-sniffing" in {f.leak_class for f in report.findings}) == steered, report.findings
