"""A buffer that one kernel reads and writes carries an earlier call's values over where the kernel looks there first;
counters, and partial sums that it puts there itself, do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

TEXT = """# kbh: problem=04_kahan_softmax
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows(x, y, kept, tickets, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    BEFORE
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    for start in range(0, n, BLOCK):
        top = tl.maximum(top, tl.load(x + row * n + start + lane, mask=start + lane < n, other=-float("inf")))
    peak = tl.max(top, 0)
    shift = SHIFT
    total = tl.zeros((BLOCK,), tl.float32)
    lost = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        value = tl.load(x + row * n + start + lane, mask=start + lane < n, other=-float("inf"))
        term = tl.exp(value - shift) - lost
        more = total + term
        lost = (more - total) - term
        total = more
    AFTER
    whole = tl.sum(total, 0) - tl.sum(lost, 0)
    for start in range(0, n, BLOCK):
        value = tl.load(x + row * n + start + lane, mask=start + lane < n, other=0.0)
        tl.store(y + row * n + start + lane, tl.exp(value - shift) / whole, mask=start + lane < n)


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()
        self.kept = torch.zeros(batch, device="cuda")
        self.tickets = torch.zeros(batch, dtype=torch.int32, device="cuda")

    def forward(self, x):
        y = torch.empty_like(x)
        HOST
        rows[(x.shape[0],)](x, y, self.kept, self.tickets, x.shape[1], BLOCK=1024)
        return y
"""
LEAK, HELD = "rubric_leak", "clean"
VARIANTS = {
    "the peak of the call before": (
        "before = tl.load(kept + row)", "tl.maximum(before, 0.0)", "tl.store(kept + row, peak)", "pass", LEAK,
    ),
    "a peak that the host takes away": (
        "before = tl.load(kept + row)", "tl.maximum(before, peak)", "tl.store(kept + row, peak)",
        "self.kept.fill_(-1e30)", HELD,
    ),
    "a number of the call": (
        "turn = tl.load(tickets + row)", "peak", "tl.store(tickets + row, turn + 1)", "pass", HELD,
    ),
    "a peak that is put there first": (
        "pass", "peak", "tl.store(kept + row, peak)\n    shift = tl.load(kept + row)", "pass", HELD,
    ),
    "a ticket, then what the others left": (
        "pass", "peak",
        "tl.store(kept + row, peak)\n    seen = tl.atomic_add(tickets + row, 1)\n    if seen == 0:\n"
        "        shift = tl.load(kept + row)\n        tl.store(tickets + row, 0)", "pass", HELD,
    ),
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_a_kernel_reads_before_it_writes_is_of_the_call_before(tmp_path: Path, variant: str) -> None:
    before, shift, after, host, verdict = VARIANTS[variant]
    text = TEXT.replace("BEFORE", before).replace("SHIFT", shift).replace("AFTER", after).replace("HOST", host)
    report = report_of(tmp_path, text)
    found = {finding.leak_class for finding in report.findings if finding.verdict != "clean"}
    assert (report.verdict, "identity-keyed-input-cache" in found) == (verdict, verdict == LEAK), report.findings


WARPS = r"""
#include <torch/extension.h>
__global__ void scaled(const float* x, float* y, float* kept, int n) {
  __shared__ float total;
  const int row = blockIdx.x;
  float s = 0.f, c = 0.f;
  const float shift = SHIFT;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const float term = __expf(x[row * n + i] - shift) - c;
    const float next = s + term;
    c = (next - s) - term;
    s = next;
  }
  if (threadIdx.x == 0) total = s - c;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[row * n + i] = __expf(x[row * n + i] - shift) / total;
  if (threadIdx.x == 0) kept[row] = fmaxf(x[row * n], x[row * n + 1]);
}
at::Tensor run(at::Tensor x, at::Tensor kept) {
  auto y = at::empty_like(x);
  scaled<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), kept.data_ptr<float>(), x.size(1));
  return y;
}
"""
HOST = (
    """# kbh: problem=04_kahan_softmax
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
ext = load_inline("e", cpp_sources="at::Tensor run(at::Tensor x, at::Tensor kept);", cuda_sources=r'''"""
    + WARPS
    + """''', functions=["run"])
class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()
        self.kept = torch.zeros(batch, device="cuda")
    def forward(self, x):
        return ext.run(x, self.kept)
"""
)


@pytest.mark.parametrize(("shift", "stale"), [("kept[row]", True), ("fmaxf(x[row * n], x[row * n + 1])", False)])
def test_the_same_in_cuda(tmp_path: Path, shift: str, stale: bool) -> None:
    report = report_of(tmp_path, HOST.replace("SHIFT", shift))
    assert ("identity-keyed-input-cache" in {f.leak_class for f in report.findings}) == stale, report.findings


# A kernel whose programs go from row to row: all of a program's work stands in its loop.
def _in_a_loop(text: str, rows: str, loop: str, end: str, indent: str) -> str:
    """The body of a kernel as the body of a loop over rows."""
    start = text.index(rows) + len(rows)
    stop = text.index(end, start)
    body = "\n".join(f"{indent}{line}" if line.strip() else line for line in text[start:stop].split("\n"))
    return text[: start - len(rows)] + loop + body + text[stop:]


ROUNDS = _in_a_loop(
    TEXT, "    row = tl.program_id(0)\n", "    for row in range(tl.program_id(0), batch, 132):\n", "\n\nclass", "    "
)
ROUNDS = ROUNDS.replace("tickets, n,", "tickets, batch, n,").replace("[(x.shape[0],)]", "[(132,)]")
ROUNDS = ROUNDS.replace("self.tickets, x.shape[1]", "self.tickets, x.shape[0], x.shape[1]")
LATER = "tl.load(kept + row, mask=row >= 132, other=-1e30)"
IN_ROUNDS = {
    "the peak of the call before": ("before = tl.load(kept + row)", "tl.maximum(before, 0.0)", "pass", LEAK),
    "the same where there is such a row": (
        "there = row < batch\n        before = tl.load(kept + row, mask=there)",
        "tl.maximum(before, 0.0)", "pass", LEAK,
    ),
    "a peak that the host takes away": (
        "before = tl.load(kept + row)", "tl.maximum(before, peak)", "self.kept.fill_(-1e30)", HELD,
    ),
    "what an earlier round left": (f"before = {LATER}", "tl.maximum(before * 0.0, peak)", "pass", HELD),
    "the same in a branch": (
        "before = 0.0\n        if row >= 132:\n            before = tl.load(kept + row - 132) * 0.0",
        "peak + before", "pass", HELD,
    ),
    "a peak that is put there first": (
        "pass", "tl.load(kept + row)", "pass", HELD,
    ),
}  # fmt: skip


@pytest.mark.parametrize("variant", IN_ROUNDS)
def test_what_a_kernel_reads_in_its_first_round_is_of_the_call_before(tmp_path: Path, variant: str) -> None:
    before, shift, host, verdict = IN_ROUNDS[variant]
    first = variant == "a peak that is put there first"
    text = ROUNDS.replace("BEFORE", before).replace("HOST", host)
    text = text.replace(
        "SHIFT", "peak\n        tl.store(kept + row, peak)\n        shift = SHIFT" if first else "SHIFT"
    )
    text = text.replace("SHIFT", shift).replace("AFTER", "pass" if first else "tl.store(kept + row, peak)")
    report = report_of(tmp_path, text)
    found = {finding.leak_class for finding in report.findings if finding.verdict != "clean"}
    assert (report.verdict, "identity-keyed-input-cache" in found) == (verdict, verdict == LEAK), report.findings


STRIDED = (
    _in_a_loop(
        HOST,
        "  const int row = blockIdx.x;\n",
        "  for (int row = blockIdx.x; row < rows; row += gridDim.x) {\n",
        "\n}\nat",
        "  ",
    )
    .replace("\n}\nat", "  __syncthreads();\n  }\n}\nat")
    .replace("float* kept, int n)", "float* kept, int rows, int n)")
)
STRIDED = STRIDED.replace("<<<x.size(0), 32>>>", "<<<132, 32>>>").replace(", x.size(1));", ", x.size(0), x.size(1));")


@pytest.mark.parametrize(
    ("shift", "stale"), [("kept[row]", True), ("row < 132 ? x[row * n] : kept[row - 132] * 0.f + x[row * n]", False)]
)
def test_the_same_in_cuda_from_row_to_row(tmp_path: Path, shift: str, stale: bool) -> None:
    report = report_of(tmp_path, STRIDED.replace("SHIFT", shift))
    assert ("identity-keyed-input-cache" in {f.leak_class for f in report.findings}) == stale, report.findings
