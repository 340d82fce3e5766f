"""Objects of C++ in kernels, functors, double floats and vectors: what they hold is followed as plain names are."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import lint, states

HEAD = """#include <torch/extension.h>
#include <cfloat>
struct Load {
  const float* at; int64_t n;
  __device__ float NAME(int64_t row, int64_t i) const { return at[row * n + i]; }
};
struct Store {
  float* at; int64_t n;
  __device__ void NAME(float v, int64_t row, int64_t i) const { at[row * n + i] = v; }
};
"""
MOST = """  int64_t row = blockIdx.x;
  __shared__ float most[256];
  float m = -FLT_MAX;
  for (int i = threadIdx.x; i < n; i += 256) m = fmaxf(m, READ(row, i));
  most[threadIdx.x] = m;
  __syncthreads();
  for (int w = 128; w; w >>= 1) {
    if (threadIdx.x < w) most[threadIdx.x] = fmaxf(most[threadIdx.x], most[threadIdx.x + w]);
    __syncthreads();
  }
  m = most[0];
"""
KAHAN = "float y = __expf(READ(row, i) - m) - c, t = s + y; c = (t - s) - y; s = t;"
PLAIN = "s += __expf(READ(row, i) - m);"
MERGE = """  __shared__ double sums[256];
  sums[threadIdx.x] = (double)s - (double)c;
  __syncthreads();
  for (int w = 128; w; w >>= 1) {
    if (threadIdx.x < w) sums[threadIdx.x] += sums[threadIdx.x + w];
    __syncthreads();
  }
  float total = (float)sums[0];
"""
RESULT = "  for (int i = threadIdx.x; i < n; i += 256) WRITE(__expf(READ(row, i) - m) / total, row, i);\n}\n"
RUN = """torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  int n = x.size(1);
  Load load{x.data_ptr<float>(), n};
  Store store{y.data_ptr<float>(), n};
  softmaxGIVEN<<<x.size(0), 256>>>(load, store, n);
  return y;
}
"""
WAYS = {  # template, parameters, template arguments at the launch, the methods' name
    "of known types": ("", "Load load, Store store, int n", "", "go"),
    "of types that are given": ("template <typename L, typename S>\n", "L load, S store, int n", "<Load, Store>", "go"),
    "of types that the launch tells": ("template <typename L, typename S>\n", "L load, S store, int n", "", "go"),
    "called by themselves": ("template <typename L, typename S>\n", "L load, S store, int n", "", "operator()"),
}


def solution(source: str) -> str:
    return f"""import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r'''{source}'''
ext = load_inline("e", "torch::Tensor run(torch::Tensor x);", SOURCE, functions=["run"])


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        return ext.run(x)
"""


def functors(how: str, step: str) -> str:
    template, params, given, name = WAYS[how]
    call = "" if name == "operator()" else f".{name}"
    merge = MERGE.replace("double", "float") if step == PLAIN else MERGE  # a sum in fp64 would count
    loop = f"for (int i = threadIdx.x; i < n; i += 256) {{ {step} }}"
    body = f"{MOST}  float s = 0.f, c = 0.f;\n  {loop}\n{merge}{RESULT}"
    kernel = f"{template}__global__ void softmax({params}) {{\n{body}"
    text = kernel.replace("READ", f"load{call}").replace("WRITE", f"store{call}")
    return solution(HEAD.replace("NAME", name) + text + RUN.replace("GIVEN", given))


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize(("step", "state"), [(KAHAN, "kept"), (PLAIN, "broken")], ids=["kahan", "plain"])
def test_a_kernel_reads_and_writes_through_objects(tmp_path: Path, how: str, step: str, state: str) -> None:
    report = lint(tmp_path, functors(how, step), "04_kahan_softmax")
    assert states(report) == {"compensated-sum": state, "authored-compute": "kept"}, report.unread
    assert (report.verdict == "clean") is (state == "kept")


@pytest.mark.parametrize(
    "made",
    ["load_args{x.data_ptr<float>(), n}", "load_args<float>{x.data_ptr<float>(), n}",
     "load_args<float>(x.data_ptr<float>(), n)"],
)  # fmt: skip
@pytest.mark.parametrize(("step", "state"), [(KAHAN, "kept"), (PLAIN, "broken")], ids=["kahan", "plain"])
def test_an_object_is_made_where_it_is_handed_on(tmp_path: Path, made: str, step: str, state: str) -> None:
    """Its class is of the text, whatever its name looks like: not only names with a capital are types."""
    text = functors("of known types", step).replace("Load load{x.data_ptr<float>(), n};", "").replace("Load ", "KIND ")
    text = text.replace("(load, store, n)", f"({made}, store, n)").replace("struct KIND {", "struct load_args {")
    if made.startswith("load_args<"):
        text = text.replace("struct load_args {", "template <typename T> struct load_args {")
        text = text.replace("KIND", "load_args<float>")
    if made.endswith(")"):
        text = text.replace("int64_t n;\n", "int64_t n;\n  load_args(const float* a, int64_t b) : at(a), n(b) {}\n", 1)
    report = lint(tmp_path, text.replace("KIND", "load_args"), "04_kahan_softmax")
    assert states(report) == {"compensated-sum": state, "authored-compute": "kept"}, report.unread


KEPT = """#include <torch/extension.h>
#include "beside.h"
__global__ void divide(const float* x, const float* most, float* y, int n) {
  for (int i = threadIdx.x; i < n; i += 256) y[blockIdx.x * n + i] = __expf(x[blockIdx.x * n + i] - most[blockIdx.x]);
}
torch::Tensor run(torch::Tensor x) {
  static torch::Tensor most = torch::empty({x.size(0)}, x.options());
  auto y = torch::empty_like(x);
  rows_of(x.data_ptr<float>(), most.data_ptr<float>(), x.size(1));
  divide<<<x.size(0), 256>>>(x.data_ptr<float>(), most.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
"""


def test_what_nobody_read_fills_a_kept_buffer_on_every_call(tmp_path: Path) -> None:
    """That a second call uses what the first left there is not said for want of reading."""
    report = lint(tmp_path, solution(KEPT), "04_kahan_softmax")
    assert not [finding.rule for finding in report.findings if finding.rule in ("KBH202", "KBH203", "KBH204")]


TWO = """__device__ float2 two(float2 a, float2 b) {
  float s = a.x + b.x, z = s - a.x;
  return make_float2(s, a.y + b.y + ((a.x - (s - z)) + (b.x - z)));
}
__device__ float2 other(float2 v, int o) {
  return make_float2(__shfl_down_sync(~0u, v.x, o), __shfl_down_sync(~0u, v.y, o));
}
"""
VECTORS = """  float2 d = make_float2(0.f, 0.f);
  for (int i = threadIdx.x; i < n; i += 256) d = two(d, make_float2(__expf(READ(row, i) - m), 0.f));
  for (int o = 16; o; o >>= 1) d = two(d, other(d, o));
  __shared__ float2 parts[8];
  __shared__ float whole;
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = d;
  __syncthreads();
  if (threadIdx.x < 32) {
    ELSE
    for (int o = 16; o; o >>= 1) d = two(d, other(d, o));
    if (threadIdx.x == 0) whole = VALUE;
  }
  __syncthreads();
  float total = whole;
"""
ELSE = {
    "a choice": "d = threadIdx.x < 8 ? parts[threadIdx.x] : make_float2(0.f, 0.f);",
    "a branch": "if (threadIdx.x < 8) d = parts[threadIdx.x]; else d = make_float2(0.f, 0.f);",
    "a branch, part by part": "if (threadIdx.x < 8) d = parts[threadIdx.x]; else { d.x = 0.f; d.y = 0.f; }",
}


@pytest.mark.parametrize("how", ELSE)
@pytest.mark.parametrize(("value", "state"), [("d.x + d.y", "kept"), ("d.x", "broken")], ids=["whole", "dropped"])
def test_what_other_lanes_set_a_vector_to_leaves_ours(tmp_path: Path, how: str, value: str, state: str) -> None:
    params = WAYS["of known types"][1]
    body = MOST + VECTORS.replace("ELSE", ELSE[how]).replace("VALUE", value) + RESULT
    text = f"__global__ void softmax({params}) {{\n{body}".replace("READ", "load.go").replace("WRITE", "store.go")
    source = HEAD.replace("NAME", "go") + TWO + text + RUN.replace("GIVEN", "")
    report = lint(tmp_path, solution(source), "04_kahan_softmax")
    assert states(report)["compensated-sum"] == state, report.unread


DOUBLE = """struct Two {
  float hi, lo;
  __device__ Two(float h, float l) : hi(h), lo(l) {}
  __device__ Two& operator+=(float v) {
    float s = hi + v, z = s - hi;
    lo += (hi - (s - z)) + (v - z);
    hi = s;
    return *this;
  }
  __device__ Two operator+(const Two& o) const {
    float s = hi + o.hi, z = s - hi;
    return Two(s, lo + o.lo + ((hi - (s - z)) + (o.hi - z)));
  }
};
"""
OPERATORS = """  Two d(0.f, 0.f);
  for (int i = threadIdx.x; i < n; i += 256) d += __expf(READ(row, i) - m);
  for (int o = 16; o; o >>= 1) d = d + Two(__shfl_down_sync(~0u, d.hi, o), __shfl_down_sync(~0u, d.lo, o));
  __shared__ float his[8], los[8];
  if (threadIdx.x % 32 == 0) { his[threadIdx.x / 32] = d.hi; los[threadIdx.x / 32] = d.lo; }
  __syncthreads();
  Two all(0.f, 0.f);
  for (int i = 0; i < 8; ++i) all = all + Two(his[i], los[i]);
  float total = VALUE;
"""


@pytest.mark.parametrize(("value", "state"), [("all.hi + all.lo", "kept"), ("all.hi", "broken")])
def test_operators_of_a_double_float_are_followed(tmp_path: Path, value: str, state: str) -> None:
    params = WAYS["of known types"][1]
    text = f"__global__ void softmax({params}) {{\n{MOST}{OPERATORS.replace('VALUE', value)}{RESULT}"
    text = text.replace("READ", "load.go").replace("WRITE", "store.go")
    source = HEAD.replace("NAME", "go") + DOUBLE + text + RUN.replace("GIVEN", "")
    assert states(lint(tmp_path, solution(source), "04_kahan_softmax"))["compensated-sum"] == state
