"""Memory that a library's call is lent again and again holds nothing that the next call would use."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, lint, model, reasons

INLINE = "from torch.utils.cpp_extension import load_inline\n"
PRODUCT = """
#include <torch/extension.h>
#include <cublasLt.h>
#include <unordered_map>
static void product(
    cublasLtMatmulDesc_t plan, torch::Tensor a, torch::Tensor b, torch::Tensor out, torch::Tensor scratch) {
  float one = 1.f, zero = 0.f;
  cublasLtHandle_t handle;
  cublasLtMatmul(handle, plan, &one, a.data_ptr(), plan, b.data_ptr(), plan, &zero, nullptr, plan, out.data_ptr(), plan,
                 nullptr, scratch.data_ptr(), 1 << 20, at::cuda::getCurrentCUDAStream());
}
"""
KEPT = {
    "made once": "static torch::Tensor scratch = torch::empty({1 << 20}, w.options().dtype(torch::kInt8));",
    "of a thread": "static thread_local torch::Tensor scratch;\n"
    "  if (!scratch.defined()) scratch = torch::empty({1 << 20}, w.options().dtype(torch::kInt8));",
    "as large as needed": "static torch::Tensor scratch;\n"
    "  if (!scratch.defined() || scratch.numel() < (1 << 20))\n"
    "    scratch = torch::empty({1 << 20}, w.options().dtype(torch::kInt8));",
}


def rules(folder: Path, body: str) -> set[str]:
    source = (
        PRODUCT
        + f"torch::Tensor run(torch::Tensor x, torch::Tensor w) {{\n  cublasLtMatmulDesc_t plan;\n  {body}\n}}\n"
    )
    build = f'ext = load_inline("e", cpp_sources=r"""{source}""", functions=["run"])\n'
    forward = "return ext.run(x.to(torch.bfloat16), self.weight.to(torch.bfloat16)) * self.weight_scale"
    report = lint(folder, HEAD + INLINE + build + model(forward))
    assert "KBH114" in {finding.rule for finding in report.findings}, reasons(report)
    return {finding.rule for finding in report.findings}


@pytest.mark.parametrize("way", KEPT)
def test_a_workspace_that_is_kept_holds_nothing_that_is_used_again(tmp_path: Path, way: str) -> None:
    body = f"{KEPT[way]}\n  auto out = torch::empty({{x.size(0), w.size(0)}}, x.options());\n"
    body += "  product(plan, x, w, out, scratch);\n  return out;"
    assert not rules(tmp_path, body) & {"KBH202", "KBH204"}


def test_a_product_that_is_kept_by_shape_is_used_again_though_the_same_function_made_it(tmp_path: Path) -> None:
    body = """static std::unordered_map<int64_t, torch::Tensor> held;
  auto scratch = torch::empty({1 << 20}, x.options().dtype(torch::kInt8));
  if (held.find(x.size(0)) == held.end()) {
    auto first = torch::empty({x.size(0), w.size(0)}, x.options());
    product(plan, x, w, first, scratch);
    held[x.size(0)] = first;
  }
  auto out = torch::empty({x.size(0), w.size(0)}, x.options());
  auto more = torch::empty({1 << 20}, x.options().dtype(torch::kInt8));
  product(plan, held[x.size(0)], w, out, more);
  return out;"""
    assert "KBH202" in rules(tmp_path, body)
