"""What a launch is given in parts, a struct or a lambda, is found wherever it lies."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, classes, lint, reasons, states

PLAIN = "total += e;"
CAREFUL = "float v = e - lost, t = total + v; lost = (t - total) - v; total = t;"
WORK = """
  const float* from = x + (long long)row * n;
  float top = -INFINITY, total = 0.f, lost = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) top = fmaxf(top, from[i]);
  top = block_max(top);
  for (int i = threadIdx.x; i < n; i += blockDim.x) { float e = __expf(from[i] - top); ADD }
  total = block_sum(total, lost);
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[(long long)row * n + i] = __expf(from[i] - top) / total;
"""
CUDA = """
#include <torch/extension.h>
__device__ float block_max(float v) {
  __shared__ float kept[256];
  kept[threadIdx.x] = v; __syncthreads();
  for (int i = 0; i < 256; ++i) v = fmaxf(v, kept[i]);
  __syncthreads(); return v;
}
__device__ float block_sum(float v, float lost) {
  __shared__ float kept[256];
  kept[threadIdx.x] = v - lost; __syncthreads();
  float total = 0.f;
  for (int i = 0; i < 256; ++i) total += kept[i];
  return total;
}
template <typename F> __global__ void each(F f) { f(blockIdx.x); }
struct Row { const float* x; float* y; int n; __device__ void operator()(int row) const { WORK } };
torch::Tensor run(torch::Tensor in) {
  auto out = torch::empty_like(in);
  int rows = in.size(0), columns = in.size(1), n = columns;
  const float* x = in.data_ptr<float>(); float* y = out.data_ptr<float>();
  MADE
  each<<<rows, 256>>>(GIVEN);
  return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run, "softmax"); }
"""
INIT = "x = in.data_ptr<float>(), y = out.data_ptr<float>(), n = columns"
LAMBDA = "[=] __device__ (int row) { WORK }"
# What stands before the launch, and what the kernel is given.
WAYS = {
    "a functor": ("Row f{x, y, n};", "f"),
    "[=]": (f"auto f = {LAMBDA};", "f"),
    "[&]": (f"auto f = {LAMBDA.replace('[=]', '[&]')};", "f"),
    "named captures": (f"auto f = {LAMBDA.replace('[=]', '[x, y, n]')};", "f"),
    "a default and references": (f"auto f = {LAMBDA.replace('[=]', '[=, &x, &n]')};", "f"),
    "by name, by reference": (f"auto f = {LAMBDA.replace('[=]', '[&x, &y, &n]')};", "f"),
    "references with a value": (f"auto f = {LAMBDA.replace('[=]', '[&x = x, &y = y, &n = columns]')};", "f"),
    "by reference, changed later": (f"n = 0; auto f = {LAMBDA.replace('[=]', '[&]')}; n = columns;", "f"),
    "by value, changed later": (f"auto f = {LAMBDA}; n = 0; x = nullptr;", "f"),
    "in another": (f"auto g = {LAMBDA.replace('[=]', '[&]')};", "[&] __device__ (int row) { g(row); }"),
    "init captures": (f"auto f = {LAMBDA.replace('[=]', f'[{INIT}]')};", "f"),
    "a lambda in place": ("", LAMBDA),
    "a struct in a capture": ("Row g{x, y, n};", "[g] __device__ (int row) { g(row); }"),
}
MODEL = """
class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        return ext.run(x)
"""


def submission(way: str, add: str) -> str:
    made, given = WAYS[way]
    text = CUDA.replace("MADE", made).replace("GIVEN", given).replace("WORK", WORK).replace("ADD", add)
    return built(text)


def built(text: str) -> str:
    """A softmax that a C++ text does."""
    build = "from torch.utils.cpp_extension import load_inline\next = load_inline('e', '', r'''" + text + "''')\n"
    return HEAD + build + MODEL


@pytest.mark.parametrize("way", WAYS)
def test_a_careful_sum_in_what_a_launch_is_given_is_clean(tmp_path: Path, way: str) -> None:
    report = lint(tmp_path, submission(way, CAREFUL), "04_kahan_softmax")
    assert set(states(report).values()) == {"kept"}, (classes(report), states(report), reasons(report))
    assert report.verdict == "clean" and not classes(report)


@pytest.mark.parametrize("way", WAYS)
def test_a_plain_sum_in_what_a_launch_is_given_is_a_leak(tmp_path: Path, way: str) -> None:
    report = lint(tmp_path, submission(way, PLAIN), "04_kahan_softmax")
    assert report.verdict == "rubric_leak", (classes(report), states(report), reasons(report))
    assert classes(report) <= {"missing-kahan", "vacuous-kahan"}, classes(report)


TAGGED = """
template <int N> struct Tag { static constexpr int n = N; };
template <class T, class U> struct Both { using first = T; };
template <class T> struct Job {
  static __device__ void run(const float* x, float* y, int n, int row) { WORK }
};
template <class Op> __global__ void job(const float* x, float* y, int n) { Op::run(x, y, n, blockIdx.x); }
torch::Tensor run"""
OF_TAGS = ["Job<decltype(tag)>", "Job<typename Both<decltype(tag), float>::first>"]


@pytest.mark.parametrize("kind", OF_TAGS)
@pytest.mark.parametrize("number", [0, 1])
def test_a_type_within_another_is_that_of_the_value_at_the_launch(tmp_path: Path, kind: str, number: int) -> None:
    """`job<Job<decltype(tag)>>`: what a kernel's template argument is made of, only the host's value tells."""
    chosen = f"if constexpr (T::n == 1) {{ {CAREFUL} }} else {{ {PLAIN} }}"
    made = f"auto go = [&](auto tag) {{ job<{kind}><<<rows, 256>>>(x, y, n); }}; go(Tag<{number}>{{}});"
    text = CUDA.replace("torch::Tensor run", TAGGED, 1).replace("each<<<rows, 256>>>(GIVEN);", made)
    report = lint(
        tmp_path, built(text.replace("MADE", "").replace("WORK", WORK).replace("ADD", chosen)), "04_kahan_softmax"
    )
    assert report.verdict == ("clean" if number else "rubric_leak"), (states(report), reasons(report))


VIEWED = """
template <class T> struct Held { T* first = nullptr; __device__ T* data() const { return this->first; } };
template <class T> struct View : Held<T> {
  __host__ __device__ View(T* p) { this->first = p; }
  __device__ T& operator[](long long at) const { return this->data()[at]; }
};
template <class T> __device__ void put(T* at, T v) { *at = v; }
__global__ void viewed(View<const float> x, View<float> y, int n) { int row = blockIdx.x; WORK }
torch::Tensor run"""


@pytest.mark.parametrize(("add", "verdict"), [(CAREFUL, "clean"), (PLAIN, "rubric_leak")])
@pytest.mark.parametrize("store", ["put(y.data() + AT, V);", "y[AT] = V;"])
def test_a_class_makes_its_object_of_the_address_that_a_launch_gives(
    tmp_path: Path, store: str, add: str, verdict: str
) -> None:
    work, _, last = WORK.replace("const float* from = x +", "const float* from = x.data() +").rpartition("y[")
    at, _, value = last.partition("] = ")
    work += store.replace("AT", at).replace("V", value.partition(";")[0])
    text = CUDA.replace("torch::Tensor run", VIEWED.replace("WORK", work).replace("ADD", add), 1)
    launch = "viewed<<<rows, 256>>>(x, y, n)"
    text = text.replace("each<<<rows, 256>>>(GIVEN)", launch).replace("MADE", "").replace("WORK", "")
    report = lint(tmp_path, built(text), "04_kahan_softmax")
    assert report.verdict == verdict, (classes(report), states(report), reasons(report))


TILES = """
#include <tiles.cuh>
#include <torch/extension.h>
struct Given { using Plane = tiles::plane<float, -1, -1>; Plane x, y; };
__global__ void soft(const __grid_constant__ Given g) {
  tiles::row<float> r;
  tiles::load(r, g.x, blockIdx.x); tiles::softmax(r, r); tiles::store(g.y, r, blockIdx.x);
}
torch::Tensor run(torch::Tensor in) {
  auto out = torch::empty_like(in);
  LAUNCH
  return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run, "softmax"); }
"""


@pytest.mark.parametrize("made", ["{in.data_ptr<float>(), in.size(0)}", "(in.data_ptr<float>(), in.size(0))"])
def test_what_a_kernel_does_through_a_class_that_is_not_in_the_text_is_not_known(tmp_path: Path, made: str) -> None:
    second = made.replace("in.data_ptr", "out.data_ptr")
    launch = f"Given::Plane a{made}; Given::Plane b{second}; Given g{{a, b}}; soft<<<in.size(0), 256>>>(g);"
    report = lint(tmp_path, built(TILES.replace("LAUNCH", launch)), "04_kahan_softmax")
    assert report.verdict == "unproven" and not classes(report), reasons(report)
    assert any("class tiles::plane" in unread.reason for unread in report.unread), reasons(report)
    report = lint(tmp_path, built(TILES.replace("LAUNCH", "")), "04_kahan_softmax")
    assert "unwritten-output" in classes(report), reasons(report)
