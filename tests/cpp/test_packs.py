"""Packs of C++ host code, laid out by fold expressions and patterns: the launch that is picked is the one that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import kbh_lint

SOURCE = r"""
#include <torch/extension.h>
#include <utility>
template <int T> __global__ void rows(const float* x, float* y, int n) {
  __shared__ SUM part[T];
  x += (size_t)blockIdx.x * n;
  float top = -1e38f;
  for (int i = 0; i < n; ++i) top = fmaxf(top, x[i]);
  SUM own = 0;
  for (int i = threadIdx.x; i < n; i += T) own += (SUM)expf(x[i] - top);
  part[threadIdx.x] = own;
  __syncthreads();
  SUM all = 0;
  for (int i = 0; i < T; ++i) all += part[i];
  for (int i = threadIdx.x; i < n; i += T) y[(size_t)blockIdx.x * n + i] = expf(x[i] - top) / (float)all;
}
template <int T> bool launch(const at::Tensor& x, at::Tensor& y, int64_t want = T) {
  if (want != T) return false;
  rows<T><<<x.size(0), T>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return true;
}
struct Runner {
  bool small(const at::Tensor& x, at::Tensor& y) { return launch<128>(x, y); }
  bool large(const at::Tensor& x, at::Tensor& y) { return launch<256>(x, y); }
};
HELPER
at::Tensor run(at::Tensor x) {
  auto y = at::empty_like(x);
  int64_t want = x.size(1) > 8192 ? 256 : 128;
  CALL
  return y;
}
"""
HOST = """
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline("packs", cpp_sources="", cuda_sources=SOURCE, functions=["run"])


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        return ext.run(x)
"""
XY = "const at::Tensor& x, at::Tensor& y, int64_t want"
WAYS = {
    "arguments of a template": (
        f"template <int... Ts> bool pick({XY}) {{ return (launch<Ts>(x, y, want) || ...); }}",
        "pick<128, 256, 512>(x, y, want);",
    ),
    "numbers of a sequence": (
        f"template <int... Ts> void pick(std::integer_sequence<int, Ts...>, {XY}) {{ (launch<Ts>(x, y, want), ...); }}",
        "pick(std::integer_sequence<int, 128, 256>{}, x, y, want);",
    ),
    "numbers that are made": (
        f"template <size_t... I> void pick(std::index_sequence<I...>, {XY}) "
        "{ ((want == 128 << I ? (void)launch<(128 << I)>(x, y) : (void)0), ...); }",
        "pick(std::make_index_sequence<3>{}, x, y, want);",
    ),
    "a pattern over arguments": (
        f"template <class... N> bool pick({XY}, N... n) {{ auto go = [&](bool a, bool b) {{ return a || b; }};\n"
        "  return go((n == want && (n == 128 ? launch<128>(x, y) : launch<256>(x, y)))...); }",
        "pick(x, y, want, 128, 256);",
    ),
    "a method behind a pointer": (
        "",
        "Runner r; auto f = want == 128 ? &Runner::small : &Runner::large; (r.*f)(x, y);",
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("total", "state"), [("double", "kept-by-precision"), ("float", "broken")])
def test_the_launch_that_a_pack_picks_is_followed(tmp_path: Path, way: str, total: str, state: str) -> None:
    helper, call = WAYS[way]
    source = SOURCE.replace("SUM", total).replace("HELPER", helper).replace("CALL", call)
    path = tmp_path / "solution.py"
    path.write_text(f'SOURCE = r"""{source}"""\n{HOST}', encoding="utf-8")
    (report,) = kbh_lint.lint([path], problem="04_kahan_softmax", raise_errors=True).files
    states = {promise.id: promise.state for promise in report.promises}
    assert states == {"compensated-sum": state, "authored-compute": "kept"}, (report.findings, report.unread)
    assert not any("never written" in finding.message for finding in report.findings)
