"""Ways in which C++ host code comes to a launch: packs, registries filled when it is loaded, pointers to methods, own
memory. The launch that is picked is the one that runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

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
REGISTRY = """#include <functional>
#include <map>
using Fn = std::function<void(const at::Tensor&, at::Tensor&)>;
static std::map<int64_t, Fn>& table() { static std::map<int64_t, Fn> kept; return kept; }
"""
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
    "arguments of a lambda": (
        "",
        "auto go = [&]<int T>(const at::Tensor& from) { launch<T>(from, y); };\n"
        "  if (want == 128) go.template operator()<128>(x); else go.operator()<256>(x);",
    ),
    "arguments in a tuple": (
        "#include <tuple>",
        "auto go = [&](auto... given) { want == 128 ? launch<128>(given...) : launch<256>(given...); };\n"
        "  std::apply(go, std::tie(x, y));",
    ),
    "a registry that a constructor fills": (
        REGISTRY + "struct Put { Put(int n, Fn f) { table()[n] = std::move(f); } };\n"
        "static Put small(128, [](const at::Tensor& x, at::Tensor& y) { launch<128>(x, y); });\n"
        "static Put large(256, [](const at::Tensor& x, at::Tensor& y) { launch<256>(x, y); });",
        "table().at(want)(x, y);",
    ),
    "a registry that a call fills": (
        REGISTRY + "static bool put(int n, Fn f) { table()[n] = f; return true; }\n"
        "static const bool small = put(128, [](const at::Tensor& x, at::Tensor& y) { launch<128>(x, y); });\n"
        "static const bool large = put(256, [](const at::Tensor& x, at::Tensor& y) { launch<256>(x, y); });",
        "table().at(want)(x, y);",
    ),
    "a method that is invoked": ("", "Runner r; want == 128 ? std::invoke(&Runner::small, r, x, y) : r.large(x, y);"),
    "a room that is shared": (
        "#include <memory>\n"
        "struct Room { at::Tensor like(const at::Tensor& x) { return at::empty(x.sizes(), x.options()); } };\n"
        "static std::shared_ptr<Room> room() { static std::weak_ptr<Room> held; auto r = held.lock();\n"
        "  if (!r) { r = std::make_shared<Room>(); held = r; } return r; }",
        "y = room()->like(x); want == 128 ? launch<128>(x, y) : launch<256>(x, y);",
    ),
    "memory of its own": (
        "",
        "float* own = nullptr; cudaMalloc(&own, x.nbytes()); const float* from = x.data_ptr<float>();\n"
        "  if (want == 128) rows<128><<<x.size(0), 128>>>(from, own, x.size(1));\n"
        "  else rows<256><<<x.size(0), 256>>>(from, own, x.size(1));\n"
        "  return at::from_blob(own, x.sizes(), [](void* p) { cudaFree(p); }, x.options());",
    ),
    "a method behind a pointer": (
        "",
        "Runner r; auto f = want == 128 ? &Runner::small : &Runner::large; (r.*f)(x, y);",
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("total", "state"), [("double", "kept-by-precision"), ("float", "broken")])
def test_the_launch_that_is_picked_is_followed(tmp_path: Path, way: str, total: str, state: str) -> None:
    helper, call = WAYS[way]
    source = SOURCE.replace("SUM", total).replace("HELPER", helper).replace("CALL", call)
    report = report_of(tmp_path, f'SOURCE = r"""{source}"""\n{HOST}', "04_kahan_softmax")
    states = {promise.id: promise.state for promise in report.promises}
    assert states == {"compensated-sum": state, "authored-compute": "kept"}, (report.findings, report.unread)
    assert not any("never written" in finding.message for finding in report.findings)
