"""Small submissions of our own for the tests of the host interpreter, and what the linter says of them."""

from __future__ import annotations

from pathlib import Path

import kbh_lint
from kbh_lint.findings import FileReport
from kbh_lint.source.spans import Span

HEAD = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl
"""

# An fp8 GEMM in Triton; `tl.dot(a, b, acc)` is the product.
GEMM = """
def gemm(x, w, s, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        depth = k + tl.arange(0, BK)
        a = tl.load(x + rows[:, None] * K + depth[None, :], mask=(rows < M)[:, None] & (depth < K)[None, :], other=0.0)
        b = tl.load(w + cols[None, :] * K + depth[:, None], mask=(depth < K)[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
    out = acc * tl.load(s + cols)[None, :]
    tl.store(y + rows[:, None] * N + cols[None, :], out.to(tl.bfloat16), mask=(rows < M)[:, None])
"""
KERNEL = "\n\n@triton.jit" + GEMM
DOT, WIDE = "tl.dot(a, b, acc)", "tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16), acc)"

MODEL = """

class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))
SETUP

    def forward(self, x):
        (M, K), N = x.shape, self.weight.shape[0]
BODY
"""
OUTPUT = "        y = torch.empty((M, N), dtype=torch.bfloat16, device=x.device)\n"
ARGUMENTS = "x, self.weight, self.weight_scale, y, M, N, K"
TILES = "BM=64, BN=128, BK=64"
GRID = "(triton.cdiv(M, 64), N // 128)"

# The same in CUDA; the finding of the plain product of widened operands points at MARK.
MARK = "float(x[row * K + k])"
CUDA = """
#include <torch/extension.h>
__global__ void gemm(const __nv_fp8_e4m3* x, const __nv_fp8_e4m3* w, const float* s, __nv_bfloat16* y, int N, int K) {
  int row = blockIdx.x, col = threadIdx.x;
  float total = 0.f;
  for (int k = 0; k < K; ++k) total += float(x[row * K + k]) * float(w[col * K + k]);
  y[row * N + col] = __float2bfloat16(total * s[col]);
}
torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor s) {
  int M = x.size(0), K = x.size(1), N = w.size(0);
  auto y = torch::empty({M, N}, x.options().dtype(torch::kBFloat16));
  gemm<<<M, N>>>((const __nv_fp8_e4m3*)x.data_ptr(), (const __nv_fp8_e4m3*)w.data_ptr(), s.data_ptr<float>(),
                 (__nv_bfloat16*)y.data_ptr(), N, K);
  return y;
}
"""
SIGNATURE = "torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor s);"
BINDING = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run, "the product"); }\n'
# Lines of `forward` that launch the kernel, and one that returns what torch makes of widened operands.
WORK = OUTPUT.replace("        ", "", 1) + f"gemm[{GRID}]({ARGUMENTS}, {TILES})\n"
LEAK = "return (x.to(torch.bfloat16) @ self.weight.to(torch.bfloat16).t() * self.weight_scale).to(torch.bfloat16)\n"


def model(body: str, setup: str = "") -> str:
    """The class, with the lines of `forward` (not indented) after the sizes are known."""
    indented = "".join(f"        {line}\n" if line else "\n" for line in body.splitlines())
    prepared = "".join(f"        {line}\n" for line in setup.splitlines())
    return MODEL.replace("SETUP\n", prepared).replace("BODY\n", indented)


def lint(
    folder: Path, text: str, problem: str | None = "01_fp8_gemm", name: str = "solution.py", deck: Path | None = None
) -> FileReport:
    """What the linter says of a text. An error inside the linter is raised."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return kbh_lint.lint([path], problem=problem, problems_dir=deck, trace=True, raise_errors=True).files[0]


def classes(report: FileReport) -> set[str]:
    return {finding.leak_class for finding in report.findings if finding.severity != "info"}


def states(report: FileReport) -> dict[str, str]:
    return {promise.id: promise.state for promise in report.promises}


def reasons(report: FileReport) -> list[str]:
    return [hole.reason for hole in report.unread]


def check_what_holds(folder: Path, before: str, first: str, holds: str) -> None:
    """That a condition holds: a leak under it is found, and one under its opposite is not there. `before` stands before
    the class, `first` at the start of `forward`.
    """
    leaks = lint(folder, HEAD + before + KERNEL + model(f"{first}if {holds}:\n    {LEAK}{WORK}return y\n"))
    assert classes(leaks) & {"reference-resubmission", "library-gemm-wrapper"}, (classes(leaks), reasons(leaks))
    honest = lint(folder, HEAD + before + KERNEL + model(f"{first}if not ({holds}):\n    {LEAK}{WORK}return y\n"))
    assert not classes(honest), classes(honest)
    assert set(states(honest).values()) == {"kept"}, reasons(honest)


def place(path: Path, words: str) -> Span:
    """The span of a text that stands once in a file, on one line."""
    text = path.read_text(encoding="utf-8")
    assert text.count(words) == 1, text.count(words)
    at = text.index(words)
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return Span(str(path), line, column, line, column + len(words))
