"""Kernels that ask a clock of the GPU what to do; waiting with a limit, or keeping times, asks it no such thing."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import ARGUMENTS, GEMM, GRID, HEAD, TILES, lint, model

SOURCE = """
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
#include <cuda_fp8.h>
#include <cuda_bf16.h>
constexpr long long LONG = 1ll << 30;
struct Pace { unsigned long long last; int settled; unsigned ready; };
__device__ unsigned long long now() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}
__global__ void pace(Pace* kept, long long* times) { BEFORE }
__global__ void gemm(const __nv_fp8_e4m3* x, const __nv_fp8_e4m3* w, const float* s, __nv_bfloat16* y, int N, int K,
                     Pace* kept, long long* times) {
  int row = blockIdx.x, col = threadIdx.x;
  EARLY
  float total = 0.f;
  for (int k = 0; k < K; ++k) total += float(x[row * K + k]) * float(w[col * K + k]);
  y[row * N + col] = __float2bfloat16(total * s[col]);
  LATE
}
void run(torch::Tensor x, torch::Tensor w, torch::Tensor s, torch::Tensor y, torch::Tensor kept, torch::Tensor t) {
  auto* at = (Pace*)kept.data_ptr();
  auto* times = (long long*)t.data_ptr();
  pace<<<1, 1>>>(at, times);
  gemm<<<x.size(0), w.size(0)>>>((const __nv_fp8_e4m3*)x.data_ptr(), (const __nv_fp8_e4m3*)w.data_ptr(),
    s.data_ptr<float>(), (__nv_bfloat16*)y.data_ptr(), w.size(0), x.size(1), at, times);
}
'''
T = "torch::Tensor"
NAME = f"void run({T} x, {T} w, {T} s, {T} y, {T} kept, {T} t);"
ext = load_inline("e", NAME, SOURCE, functions=["run"])
"""
SETUP = (
    'self.y = torch.empty(M, N, dtype=torch.bfloat16, device="cuda")\n'
    'self.kept = torch.zeros(16, dtype=torch.uint8, device="cuda")\n'
    'self.times = torch.zeros(4096, dtype=torch.int64, device="cuda")\n'
)
WORK = "ext.run(x, self.weight, self.weight_scale, self.y, self.kept, self.times)\nreturn self.y\n"
PACE = "kept->settled = now() - kept->last < 600000ull; kept->last = now();"
WAIT = "while (*(volatile unsigned*)&kept->ready == 0)"
WAYS = {  # what the kernel before does, what runs before the product and after the store, and whether a clock decides
    "a pace that another kernel keeps": (PACE, "if (kept->settled) return;", "", True),
    "its own pace": ("", "if (clock64() - (long long)kept->last < 600000) return;", "kept->last = clock64();", True),
    "half a word of it": (
        "", 'unsigned low; asm volatile("mov.u32 %0, %%clock;" : "=r"(low)); if (low & 1024) return;', "", True
    ),
    "a depth by the pace": (PACE, "if (kept->settled) K = K / 2;", "", True),
    "a depth by how long it took": ("", "int end = clock64() & 1 ? K : K / 2; K = end;", "", True),
    "nothing": ("kept->ready = 1;", "", "", False),
    "waiting with a limit": (
        "kept->ready = 1;", "for (auto begin = clock64(); kept->ready == 0;) if (clock64() - begin > LONG) __trap();",
        "", False,
    ),
    "waiting with pauses": (
        "kept->ready = 1;", f"{WAIT} {{ auto since = clock64(); while (clock64() - since < 200) {{}} }}", "", False
    ),
    "waiting that may give up": (
        "kept->ready = 1;", f"auto begin = now(); {WAIT} {{ if (now() - begin > 1000000000ull) break; }}", "", False
    ),
    "times of its blocks": (
        "times[0] = now();", "auto begin = clock64();", "if (col == 0) times[row + 1] = clock64() - begin;", False
    ),
    "the longest of them": (
        "", "auto begin = clock64();",
        "auto spent = clock64() - begin; if (col == 0 && spent > times[0]) times[0] = spent;", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_clock_decides_nothing(tmp_path: Path, way: str) -> None:
    before, early, late, found = WAYS[way]
    text = SOURCE.replace("BEFORE", before).replace("EARLY", early).replace("LATE", late)
    report = lint(tmp_path, HEAD + text + model(WORK, SETUP))
    assert ("KBH302" in {finding.rule for finding in report.findings}) == found, (report.findings, report.unread)


IN_TRITON = {
    "a return": ("    if tl.extra.cuda.globaltimer() - tl.load(seen) < 600000:\n        return\n", "", True),
    "a mask": ("    live = tl.extra.cuda.globaltimer() > tl.load(seen)\n", " & live", True),
    "assembly": (
        "    now = tl.inline_asm_elementwise('mov.u64 $0, %globaltimer;', '=l', [], tl.int64, False, 1)\n"
        "    if now - tl.load(seen) < 600000:\n        return\n", "", True,
    ),
    "when it began": ("    tl.store(seen, tl.extra.cuda.globaltimer())\n", "", False),
}  # fmt: skip


@pytest.mark.parametrize("how", IN_TRITON)
def test_a_clock_decides_nothing_in_triton(tmp_path: Path, how: str) -> None:
    begin, mask, found = IN_TRITON[how]
    gemm = GEMM.replace("(x, w, s, y,", "(x, w, s, y, seen,").replace("    rows =", f"{begin}    rows =", 1)
    gemm = "\n\n@triton.jit" + gemm.replace("mask=(rows < M)[:, None])\n", f"mask=(rows < M)[:, None]{mask})\n")
    work = f"y = self.y\ngemm[{GRID}]({ARGUMENTS.replace('y,', 'y, self.times,')}, {TILES})\nreturn y\n"
    report = lint(tmp_path, HEAD + gemm + model(work, SETUP))
    assert ("KBH302" in {finding.rule for finding in report.findings}) == found, (report.findings, report.unread)
