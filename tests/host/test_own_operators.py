"""Operators that a submission registers from C++: whether they are there yet is known, and what they launch is its own."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

TEXT = """import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = '''#include <torch/extension.h>
void twice(torch::Tensor x, torch::Tensor y);
TORCH_LIBRARY(SPACE, m) { m.def("twice(Tensor x, Tensor(a!) y) -> ()"); m.impl("twice", c10::DispatchKey::CUDA, &twice); }
'''
CUDA = '''#include <torch/extension.h>
__global__ void kernel(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * 2.f;
}
void twice(torch::Tensor x, torch::Tensor y) {
  kernel<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
}
'''


def build():
    if hasattr(torch.ops.SPACE, "twice"):
        return
    load_inline(name="own", cpp_sources=[CPP], cuda_sources=[CUDA], is_python_module=False)
    assert hasattr(torch.ops.SPACE, "twice")


BEFORE
build()


class Model(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        torch.ops.SPACE.twice(x, y)
        return y
"""


def work(folder: Path, space: str, before: str = "") -> tuple[str, str]:
    report = report_of(folder, TEXT.replace("SPACE", space).replace("BEFORE", before), "04_kahan_softmax")
    (promise,) = (promise for promise in report.promises if promise.id == "authored-compute")
    return promise.state, promise.reason


def test_what_was_not_registered_is_not_there(tmp_path: Path) -> None:
    assert work(tmp_path, "own_sums") == ("kept", "")


@pytest.mark.parametrize(("space", "before"), [("quantized", ""), ("own_sums", "import some_kernels")])
def test_what_others_may_have_registered_is_not_known(tmp_path: Path, space: str, before: str) -> None:
    assert work(tmp_path, space, before)[0] == "unproven"
