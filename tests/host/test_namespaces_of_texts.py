"""Two namespaces of one text that use the same names: each means its own, and a directive in a block picks one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

PROBLEM = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, A, B):
        return torch.matmul(A, B)


def get_inputs():
    return [torch.rand(1024, 1024), torch.rand(1024, 1024)]


def get_init_inputs():
    return []
"""
PROGRAM = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <torch/extension.h>
#include <cuda_fp16.h>
#include "cutlass/gemm/device/gemm.h"
using Row = cutlass::layout::RowMajor;
namespace narrow {
using E = cutlass::half_t;
using Gemm = cutlass::gemm::device::Gemm<E, Row, E, Row, float, Row, float, cutlass::arch::OpClassTensorOp>;
}
namespace wide {
using E = float;
using Gemm = cutlass::gemm::device::Gemm<E, Row, E, Row, float, Row, float, cutlass::arch::OpClassTensorOp>;
}
torch::Tensor op(torch::Tensor a, torch::Tensor b) {
  int M = a.size(0), K = a.size(1), N = b.size(1);
  auto c = torch::empty({M, N}, a.options().dtype(torch::kFloat32));
  float* out = c.data_ptr<float>();
  BODY
  return c;
}
"""
signature = "torch::Tensor op(torch::Tensor a, torch::Tensor b);"
built = load_inline(name="products", cpp_sources=signature, cuda_sources=cuda, functions=["op"])


class ModelNew(nn.Module):
    def forward(self, A, B):
        return built.op(ARGUMENTS)
'''
CALL = (
    "GEMM gemm; typename GEMM::Arguments args({M, N, K}, {(SPACEE*)a.data_ptr(), K}, {(SPACEE*)b.data_ptr(), N},"
    " {out, N}, {out, N}, {1.0f, 0.0f}); gemm(args);"
)
QUALIFIED = CALL.replace("GEMM", "SPACEGemm").replace("SPACE", "NAME::")
DIRECTED = "{ using namespace NAME; " + CALL.replace("GEMM", "Gemm").replace("SPACE", "") + " }"
VARIANTS = {
    "qualified": (QUALIFIED.replace("NAME", "wide"), "A, B", []),
    "a directive in a block": (DIRECTED.replace("NAME", "wide"), "A, B", []),
    "qualified, the other": (QUALIFIED.replace("NAME", "narrow"), "A.half(), B.half()", ["KBH403"]),
    "a directive for the other": (DIRECTED.replace("NAME", "narrow"), "A.half(), B.half()", ["KBH403"]),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_name_of_two_namespaces_is_that_of_the_one_that_is_meant(tmp_path: Path, variant: str) -> None:
    body, arguments, rules = VARIANTS[variant]
    problem, path = tmp_path / "product.py", tmp_path / "solution.py"
    problem.write_text(PROBLEM)
    problem.with_suffix(".yaml").write_text("narrowest: {operands: tf32}\n")
    path.write_text(PROGRAM.replace("BODY", body).replace("ARGUMENTS", arguments), encoding="utf-8")
    (report,) = lint([path], problem_file=problem).files
    assert sorted({finding.rule for finding in report.findings}) == rules, report.verdict
