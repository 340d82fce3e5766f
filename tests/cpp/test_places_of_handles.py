"""Streams that a C++ host keeps in arrays, maps, pointers and statics: the handle that was put there is found again."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

RULE = "KBH310"
TEXT = """import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline("e", "torch::Tensor run(torch::Tensor x, int64_t lane);", r'''#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
__global__ void scale(const float* x, float* y, int n) {
  for (int i = threadIdx.x; i < n; i += 256) y[blockIdx.x * n + i] = x[blockIdx.x * n + i];
}
OUTSIDE
torch::Tensor run(torch::Tensor x, int64_t lane) {
  auto y = torch::empty_like(x);
  INSIDE
  scale<<<x.size(0), 256, 0, st>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  AFTER
  return y;
}
''', functions=["run"])


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        return ext.run(x, 1)
"""
MAKE = "cudaStreamCreateWithFlags(PLACE, cudaStreamNonBlocking);"
KEPT = {
    "a static array": ("static cudaStream_t q[8];", f"if (!q[lane]) {MAKE} cudaStream_t st = q[lane];", "&q[lane]"),
    "an array in a function": ("", f"static cudaStream_t q[8] = {{}}; if (!q[1]) {MAKE} auto st = q[1];", "q + lane"),
    "std::array": ("static std::array<cudaStream_t, 8> q;", f"if (q[1] == nullptr) {MAKE} auto st = q[1];", "&q[1]"),
    "std::map": ("static std::map<int, cudaStream_t> q;", f"auto& st = q[lane]; if (!st) {MAKE}", "&st"),
    "std::unordered_map": (
        "static std::unordered_map<int, cudaStream_t> q;", f"if (!q[lane]) {MAKE} auto st = q[lane];", "&q[lane]"
    ),
    "std::vector": ("static std::vector<cudaStream_t> q(8);", f"if (!q[1]) {MAKE} auto st = q[1];", "&q[1]"),
    "new": ("", f"static auto* q = new cudaStream_t[4](); if (!q[1]) {MAKE} auto st = q[1];", "&q[1]"),
    "a static without a value": ("static cudaStream_t q;", f"if (!q) {MAKE} auto st = q;", "&q"),
    "a function that gives it": (
        "static cudaStream_t of(int i) { static cudaStream_t q[4] = {}; if (!q[i]) MAKE return q[i]; }",
        "cudaStream_t st = of((int)lane);", "&q[i]",
    ),
    "the driver's": (
        "static CUstream q[2];",
        "if (!q[1]) cuStreamCreate(&q[1], CU_STREAM_NON_BLOCKING); auto st = (cudaStream_t)q[1];", "",
    ),
}  # fmt: skip
JOIN = (
    "static cudaEvent_t done = nullptr; if (!done) cudaEventCreate(&done); cudaEventRecord(done, st);"
    "cudaStreamWaitEvent(at::cuda::getCurrentCUDAStream(), done, 0);"
)


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("how", KEPT)
def test_a_kept_stream_is_the_one_that_was_made(tmp_path: Path, how: str, joined: bool) -> None:
    outside, inside, place = KEPT[how]
    text = TEXT.replace("OUTSIDE", outside).replace("INSIDE", inside).replace("MAKE", MAKE).replace("PLACE", place)
    report = report_of(tmp_path, text.replace("AFTER", JOIN if joined else ""), "04_kahan_softmax")
    assert (RULE in {finding.rule for finding in report.findings}) is not joined, report.findings
    assert {promise.id: promise.state for promise in report.promises}["authored-compute"] == "kept"


def test_a_stream_that_is_ordered_with_the_callers_is_waited_for(tmp_path: Path) -> None:
    text = TEXT.replace("OUTSIDE", "static cudaStream_t q[2];").replace("AFTER", "")
    report = report_of(
        tmp_path, text.replace("INSIDE", "if (!q[1]) cudaStreamCreate(q + lane); cudaStream_t st = q[1];"),
        "04_kahan_softmax",
    )  # fmt: skip
    assert RULE not in {finding.rule for finding in report.findings}
