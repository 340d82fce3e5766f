"""Kernels that ask memory of the call before whether the inputs are the same, and then leave the result as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import ARGUMENTS, GEMM, GRID, HEAD, OUTPUT, TILES, lint, model

LOOK = """
@triton.jit
def look(x, seen, moved, n, B: tl.constexpr):
    total = tl.sum(tl.load(x + tl.arange(0, B) * (n // B)).to(tl.float32))
    tl.store(moved, (SAME).to(tl.int32))
    tl.store(seen, NEXT)
"""
GATE = "    if tl.load(moved) == 0:\n        return\n    rows ="
GATED = "\n\n@triton.jit" + GEMM.replace("(x, w, s, y,", "(x, w, s, y, moved,").replace("    rows =", GATE, 1)
KEPT = (
    'self.seen, self.moved = torch.zeros(1, device="cuda"), torch.zeros(1, dtype=torch.int32, device="cuda")\n'
    'self.y = torch.empty(M, N, dtype=torch.bfloat16, device="cuda")\n'
)
ASKED = "look[(1,)](x, self.seen, self.moved, x.numel(), B=1024)\n"
WORK = f"gemm[{GRID}]({ARGUMENTS.replace('y,', 'y, self.moved,')}, {TILES})\nreturn y\n"
FIRST = "y = self.y\n"
FRESH = OUTPUT.strip() + "\n"
WAYS = {
    "a sum of the inputs": ("tl.load(seen) != total", "total", FIRST + ASKED, True),
    "a sum that is nearly the same": ("tl.abs(tl.load(seen) - total) > 1e-6", "total * 1.0", FIRST + ASKED, True),
    "a result of its own": ("tl.load(seen) != total", "total", FRESH + ASKED, False),
    "a result that was begun": ("tl.load(seen) != total", "total", f"{FIRST}y.zero_()\n{ASKED}", False),
    "inputs alone": ("total != 0", "total", FIRST + ASKED, False),
    "how often it was called": ("tl.load(seen) != 4", "tl.load(seen) + 1", FIRST + ASKED, False),
    "a count beside the inputs": ("tl.load(seen) + total != 4", "tl.load(seen) + 1", FIRST + ASKED, False),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_kernel_may_not_ask_what_the_call_before_left(tmp_path: Path, way: str) -> None:
    same, following, first, found = WAYS[way]
    asks = LOOK.replace("SAME", same).replace("NEXT", following)
    report = lint(tmp_path, HEAD + asks + GATED + model(first + WORK, KEPT))
    assert ("KBH209" in {finding.rule for finding in report.findings}) == found, report.trace


CUDA = """
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
#include <cuda_fp8.h>
#include <cuda_bf16.h>
struct Kept { unsigned long long seen; int moved; };
struct Words { const unsigned* at; int count; __device__ unsigned of(int i) const { return at[i % count]; } };
__global__ void look(Words words, Kept* kept) {
  __shared__ unsigned long long all;
  if (threadIdx.x == 0) all = 0;
  __syncthreads();
  atomicAdd(&all, (unsigned long long)words.of(threadIdx.x) * 2654435761u);
  __syncthreads();
  if (threadIdx.x == 0) {
    kept->moved = SAME;
    kept->seen = all;
  }
}
__global__ void gemm(const __nv_fp8_e4m3* x, const __nv_fp8_e4m3* w, const float* s, __nv_bfloat16* y, int N, int K,
                     const Kept* kept) {
  EARLY
  int row = blockIdx.x, col = threadIdx.x;
  float total = 0.f;
  for (int k = 0; k < K; ++k) total += float(x[row * K + k]) * float(w[col * K + k]);
  if (kept->moved) { y[row * N + col] = __float2bfloat16(total * s[col]); }
  LATE
}
void run(torch::Tensor x, torch::Tensor w, torch::Tensor s, torch::Tensor y, torch::Tensor kept) {
  auto* head = (Kept*)kept.data_ptr();
  look<<<1, 256>>>(Words{(const unsigned*)x.data_ptr(), int(x.numel() / 4)}, head);
  gemm<<<x.size(0), w.size(0)>>>((const __nv_fp8_e4m3*)x.data_ptr(), (const __nv_fp8_e4m3*)w.data_ptr(),
    s.data_ptr<float>(), (__nv_bfloat16*)y.data_ptr(), w.size(0), x.size(1), head);
}
'''
NAME = "void run(torch::Tensor x, torch::Tensor w, torch::Tensor s, torch::Tensor y, torch::Tensor kept);"
ext = load_inline("e", NAME, SOURCE, functions=["run"])
"""
LEFT = "y[row * N + col] = __float2bfloat16(total);"


@pytest.mark.parametrize(("same", "early", "late", "found"), [
    ("kept->seen != all", "", "", True),
    ("kept->seen == all ? 0 : 1", "if (!kept->moved) return;", "", True),
    ("kept->seen != all", "", LEFT, False),  # which is stored in any case
    ("all != 0", "", "", False),
])  # fmt: skip
def test_a_struct_may_hold_what_is_kept(tmp_path: Path, same: str, early: str, late: str, found: bool) -> None:
    setup = (
        'self.y = torch.empty(M, N, dtype=torch.bfloat16, device="cuda")\n'
        'self.kept = torch.zeros(16, dtype=torch.uint8, device="cuda")\n'
    )
    text = CUDA.replace("SAME", same).replace("EARLY", early).replace("LATE", late)
    work = "ext.run(x, self.weight, self.weight_scale, self.y, self.kept)\nreturn self.y\n"
    report = lint(tmp_path, HEAD + text + model(work, setup))
    assert ("KBH209" in {finding.rule for finding in report.findings}) == found, report.trace
