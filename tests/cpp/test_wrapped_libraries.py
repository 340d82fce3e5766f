"""ATen's own wrappers of cub and of BLAS, and device-wide functions of cub and thrust: classed by what they do."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of
from test_extension_hosts import LAUNCH, TENSORS, Host
from test_library_work import MOE, OWN_LAUNCH, OWN_PRODUCT

from kbh_lint.findings import FileReport
from kbh_lint.host.gpu import device_wide

HEADS = """#include <ATen/cuda/cub.h>
#include <cub/cub.cuh>
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>
#include <thrust/sort.h>
typedef cub::KeyValuePair<int, float> Pair;
__global__ void number(int64_t* p, int* ends, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) p[(int64_t)blockIdx.x * n + i] = i;
  if (threadIdx.x == 0) { ends[blockIdx.x + 1] = (blockIdx.x + 1) * n; ends[0] = 0; }
}
__global__ void take(const float* s, const int64_t* p, float* top, int64_t* at, int n, int k) {
  for (int i = threadIdx.x; i < k; i += blockDim.x) {
    top[blockIdx.x * k + i] = s[(int64_t)blockIdx.x * n + i];
    at[blockIdx.x * k + i] = p[(int64_t)blockIdx.x * n + i];
  }
}
__global__ void unpair(const Pair* pairs, float* top, int64_t* at, int batch) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < batch) { top[i] = pairs[i].value; at[i] = pairs[i].key; }
}
__global__ void found(const float* x, const Pair* pairs, float* top, int64_t* at, int n, int batch) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < batch) { top[i] = x[(int64_t)i * n + pairs[i].key]; at[i] = pairs[i].key; }
}
"""
# `room` of many bytes, `e` ends of rows, `p` places of elements, `s` and `q` for what is put in order.
ROOMS = """
  int batch = x.size(0), n = x.size(1);
  auto keys = torch::empty_like(x), places = torch::empty_like(x, x.options().dtype(torch::kInt64));
  auto out = torch::empty_like(places), ends = torch::empty({batch + 1}, x.options().dtype(torch::kInt32));
  auto room = torch::empty({1 << 24}, x.options().dtype(torch::kUInt8));
  size_t bytes = 1 << 24; void* w = room.data_ptr();
  number<<<batch, 256>>>(places.data_ptr<int64_t>(), ends.data_ptr<int>(), n);
  const int* e = ends.data_ptr<int>();
  const float* f = x.data_ptr<float>(); float* s = keys.data_ptr<float>();
  int64_t *p = places.data_ptr<int64_t>(), *q = out.data_ptr<int64_t>();
"""
TAKE = "take<<<batch, 64>>>(s, q, top.data_ptr<float>(), at.data_ptr<int64_t>(), n, k);"
ROWS = "for (int r = 0; r < batch; ++r) { int64_t o = (int64_t)r * n; BODY }\n  " + TAKE
PAIRED = "torch::empty({batch}, x.options().dtype(torch::kInt64)); Pair* pairs = (Pair*)both.data_ptr();\n  "
OUT = "top.data_ptr<float>(), at.data_ptr<int64_t>()"
SORT = "(f + o, s + o, p + o, q + o, n, true);"
SORTS = {  # what stands above, and what makes the result
    "its own name": ("", ROWS.replace("BODY", f"at::cuda::cub::radix_sort_pairs<float, int64_t>{SORT}")),
    "its own name, deduced": ("", ROWS.replace("BODY", f"at::cuda::cub::radix_sort_pairs{SORT}")),
    "an alias": ("namespace a = at::cuda::cub;", ROWS.replace("BODY", f"a::radix_sort_pairs<float, int64_t>{SORT}")),
    "a declaration": ("using at::cuda::cub::radix_sort_pairs;", ROWS.replace("BODY", f"radix_sort_pairs{SORT}")),
    "a directive": ("using namespace at::cuda::cub;", ROWS.replace("BODY", f"radix_sort_pairs<float, int64_t>{SORT}")),
    "parts": (
        "",
        "at::cuda::cub::segmented_sort_pairs<float, int64_t>(f, s, p, q, batch * n, batch, e, e + 1, true);\n  " + TAKE,
    ),
    "thrust": (
        "",
        "keys.copy_(x); out.copy_(places); " + ROWS.replace(
            "BODY", "thrust::stable_sort_by_key(thrust::device, s + o, s + o + n, q + o, thrust::greater<float>());"),
    ),
    "thrust, over its own pointers": (
        "",
        "keys.copy_(x); out.copy_(places); auto policy = thrust::cuda::par.on(at::cuda::getCurrentCUDAStream());\n  "
        + ROWS.replace(
            "BODY", "thrust::device_ptr<float> a(s + o); auto b = thrust::device_pointer_cast(q + o);\n"
            "    thrust::sort_by_key(policy, a, a + n, b, thrust::greater<float>());"),
    ),
    "thrust, by the namespace of its policy": (
        "",
        "keys.copy_(x); out.copy_(places); " + ROWS.replace(
            "BODY", "stable_sort_by_key(thrust::device, s + o, s + o + n, q + o, thrust::greater<float>());"),
    ),
    "the place of the largest, on the host": (
        "",
        "for (int r = 0; r < batch; ++r) {\n"
        "    const float* row = f + (int64_t)r * n;\n"
        "    int64_t best = thrust::max_element(thrust::device, row, row + n) - row;\n"
        "    at[r].fill_(best); top[r].copy_(x[r].narrow(0, best, 1));\n  }",
    ),
    "the largest of each row": (
        "",
        f"auto both = {PAIRED}cub::DeviceSegmentedReduce::ArgMax(w, bytes, f, pairs, batch, e, e + 1);\n"
        f"  unpair<<<1, 128>>>(pairs, {OUT}, batch);",
    ),
    "the largest of each row, in the workspace": (
        "",
        "Pair* pairs = (Pair*)w; void* rest = (char*)w + batch * sizeof(Pair);\n"
        "  cub::DeviceSegmentedReduce::ArgMax(rest, bytes, f, pairs, batch, e, e + 1);\n"
        f"  unpair<<<1, 128>>>(pairs, {OUT}, batch);",
    ),
    "the largest of one row after the other": (
        "",
        f"auto both = {PAIRED}for (int r = 0; r < batch; ++r)\n"
        "    cub::DeviceReduce::ArgMax(w, bytes, f + (int64_t)r * n, pairs + r, n);\n"
        f"  unpair<<<1, 128>>>(pairs, {OUT}, batch);",
    ),
    "where the largest is": (
        "",
        f"auto both = {PAIRED}cub::DeviceSegmentedReduce::ArgMax(w, bytes, f, pairs, batch, e, e + 1);\n"
        f"  found<<<1, 128>>>(f, pairs, {OUT}, n, batch);",
    ),
}  # fmt: skip
OWN_SORTS = {
    "an own namespace of the name": (
        "namespace own { namespace cub { template <class T, class V>\n"
        "void radix_sort_pairs(const T* x, T* top, int64_t* at, int batch, int n, int k) {\n"
        "  order<<<batch, 256>>>(x, top, at, n, k); } } }\nusing namespace own;",
        f"own::cub::radix_sort_pairs<float, int64_t>(f, {OUT}, batch, n, k);",
    ),
    "an own class of the name": (
        "namespace mine { struct DeviceSegmentedReduce {\n"
        "static void ArgMax(const float* x, float* top, int64_t* at, int b, int n, int k) {\n"
        "  order<<<b, 256>>>(x, top, at, n, k); } }; }\nnamespace tools = mine;",
        f"tools::DeviceSegmentedReduce::ArgMax(f, {OUT}, batch, n, k);",
    ),
    "sums of what is no input": (
        "",
        "auto sizes = torch::ones({batch + 1}, x.options().dtype(torch::kInt32));\n"
        "  cub::DeviceScan::ExclusiveSum(w, bytes, sizes.data_ptr<int>(), ends.data_ptr<int>(), batch + 1);\n"
        f"  {LAUNCH}",
    ),
    "sums by ATen of what is no input": (
        "",
        "auto sizes = torch::ones({batch + 1}, x.options().dtype(torch::kInt32));\n"
        "  at::cuda::cub::exclusive_sum_in_common_type(sizes.data_ptr<int>(), ends.data_ptr<int>(), batch + 1);\n"
        f"  {LAUNCH}",
    ),
    "a bound that every element is held against": (
        "__global__ void above(const float* x, const float* low, float* top, int64_t* at, int n, int k) {\n"
        "  const float* row = x + (int64_t)blockIdx.x * n;\n"
        "  for (int i = threadIdx.x; i < n; i += blockDim.x) {\n"
        "    int before = 0;\n"
        "    for (int j = 0; j < n; ++j) before += row[j] > row[i] || (row[j] == row[i] && j < i);\n"
        "    if (row[i] < low[0] || before >= k) continue;\n"
        "    top[blockIdx.x * k + before] = row[i]; at[blockIdx.x * k + before] = i;\n"
        "  }\n}",
        "auto low = torch::empty({1}, x.options());\n"
        "  cub::DeviceReduce::Min(w, bytes, f, low.data_ptr<float>(), batch * n);\n"
        f"  above<<<batch, 256>>>(f, low.data_ptr<float>(), {OUT}, n, k);",
    ),
}  # fmt: skip
SIZES = "'n', 'n', I, rows, H, 1.f, a, I, in, H, 0.f, to, I);"
GEMMS = {  # what stands above, and one product
    "its own name": ("", f"at::cuda::blas::gemm<T>({SIZES}"),
    "its own name, deduced": ("", "at::cuda::blas::gemm(" + SIZES),
    "an alias": (
        "namespace tile = at::cuda::blas;", f"tile::gemm<T>({SIZES}"),
    "an alias of an alias": (
        "namespace c = at::cuda; namespace tile = c::blas;",
        f"tile::gemm<T>({SIZES}"),
    "a directive": (
        "using namespace at::cuda::blas;", f"gemm<T>({SIZES}"),
    "a declaration": (
        "using at::cuda::blas::gemm;", f"gemm<T>({SIZES}"),
    "batches": (
        "", "const auto b = rows * H;\n"
        "      at::cuda::blas::bgemm<T>('n', 'n', I, rows, H, 1.f, a, I, H * I, in, H, b, 0.f, to, I, rows * I, 1);"),
    "a pointer": (
        "", "auto go = &at::cuda::blas::gemm<T>; go(" + SIZES),
    "an operation of at::native": (
        "namespace impl = at::native;",
        "auto made = impl::mm(xs_.narrow(0, first, rows), (both ? wu : wg)[e]);\n"
        "      (both ? up : gate).narrow(0, first, rows).copy_(made);"),
}  # fmt: skip
WHOLE = "(both ? up : gate).narrow(0, first, rows)"
GIVEN = "xs_.narrow(0, first, rows), (both ? wu : wg)[e]"
GEMMS |= {
    "a backend's own, which writes what comes last": (
        "", f"auto made = {WHOLE}; at::native::mm_out_cuda({GIVEN}, made);"),
    "a backend's own": ("", f"{WHOLE}.copy_(at::native::addmm_cuda({WHOLE}, {GIVEN}, 0, 1));"),
    "an operation of the backend": ("", f"{WHOLE}.copy_(at::cuda::mm({GIVEN}));"),
    "an operation of the backend, which writes what comes first": (
        "namespace gpu = at::cuda;", f"auto made = {WHOLE}; gpu::mm_out(made, {GIVEN});"),
}  # fmt: skip
OWN_GEMM = (
    f"namespace blas {{{OWN_PRODUCT.removesuffix('torch::Tensor go(')}"
    + """template <class T> void gemm(Job j, int I, int rows) { expert<<<dim3(I / 16, rows / 16), dim3(16, 16)>>>(j); }
}
"""
)


def _host(above: str, body: str) -> str:
    text = f"{HEADS}{above}\nvoid go({TENSORS}, int64_t k) {{{ROOMS}  {body}\n}}\n"
    return Host(text, "ext.go(x, top, at, self.k)", (), "go", f"void go({TENSORS}, int64_t k);").solution()


def _classes(report: FileReport) -> set[str]:
    return {f.leak_class for f in report.findings}


@pytest.mark.parametrize("how", SORTS)
def test_a_selection_of_a_library_is_told_by(how: str, tmp_path: Path) -> None:
    report = report_of(tmp_path, _host(*SORTS[how]), "05_topk_bitonic")
    assert "builtin-op-sidestep" in _classes(report), (report.verdict, report.unread, report.promises)


@pytest.mark.parametrize("how", SORTS)
def test_one_shape_is_enough(how: str, tmp_path: Path) -> None:
    above, body = SORTS[how]
    report = report_of(tmp_path, _host(above, f"if (k > 1) {{ {LAUNCH} return; }}\n  {body}"), "05_topk_bitonic")
    told = [f for f in report.findings if f.leak_class == "builtin-op-sidestep"]
    assert told and told[0].shapes == ("128x4096x1",), (report.verdict, report.unread, report.promises)


@pytest.mark.parametrize("how", OWN_SORTS)
def test_a_selection_of_the_text_is_its_own_beside(how: str, tmp_path: Path) -> None:
    report = report_of(tmp_path, _host(*OWN_SORTS[how]), "05_topk_bitonic")
    assert report.verdict == "clean", ([f.message for f in report.findings], report.unread, report.promises)


SOFTMAX = """import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
#include <cub/cub.cuh>
__global__ void ends(int* e, int n) { e[threadIdx.x] = threadIdx.x * n; }
__global__ void powers(const float* x, const float* top, float* y, int n) {
  x += (int64_t)blockIdx.x * n; y += (int64_t)blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = expf(x[i] - top[blockIdx.x]);
}
__global__ void parts(const double* sum, float* y, int n) {
  y += (int64_t)blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] /= sum[blockIdx.x];
}
__global__ void most(const float* x, float* top, int n) {
  for (int i = 0; i < n; ++i) top[blockIdx.x] = fmaxf(top[blockIdx.x], x[(int64_t)blockIdx.x * n + i]);
}
__global__ void total(const float* y, double* sum, int n) {
  double s = 0; for (int i = 0; i < n; ++i) s += y[(int64_t)blockIdx.x * n + i];
  sum[blockIdx.x] = s;
}
torch::Tensor run(torch::Tensor x) {
  int batch = x.size(0), n = x.size(1);
  auto y = torch::empty_like(x), top = torch::full({batch}, -1e38, x.options());
  auto sum = torch::empty({batch}, x.options().dtype(torch::kFloat64));
  auto e = torch::empty({batch + 1}, x.options().dtype(torch::kInt32));
  auto room = torch::empty({1 << 24}, x.options().dtype(torch::kUInt8));
  size_t bytes = 1 << 24; void* w = room.data_ptr();
  ends<<<1, batch + 1>>>(e.data_ptr<int>(), n);
  const int* b = e.data_ptr<int>();
  const float* f = x.data_ptr<float>(); float *m = top.data_ptr<float>(), *p = y.data_ptr<float>();
  double* s = sum.data_ptr<double>();
  MOST
  powers<<<batch, 256>>>(f, m, p, n);
  TOTAL
  parts<<<batch, 256>>>(s, p, n);
  return y;
}
'''
ext = load_inline("e", "torch::Tensor run(torch::Tensor x);", SOURCE, functions=["run"])


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        return ext.run(x)
"""


@pytest.mark.parametrize(
    ("most", "total", "kept"),
    [
        (
            "cub::DeviceSegmentedReduce::Max(w, bytes, f, m, batch, b, b + 1);",
            "cub::DeviceSegmentedReduce::Sum(w, bytes, p, s, batch, b, b + 1);",
            False,
        ),
        ("most<<<batch, 1>>>(f, m, n);", "total<<<batch, 1>>>(p, s, n);", True),
    ],
)
def test_reductions_of_a_library_are_none_of_the_kernels(most: str, total: str, kept: bool, tmp_path: Path) -> None:
    report = report_of(tmp_path, SOFTMAX.replace("MOST", most).replace("TOTAL", total), "04_kahan_softmax")
    state = next(promise.state for promise in report.promises if promise.id == "authored-compute")
    assert state == ("kept" if kept else "broken"), (report.verdict, report.promises)
    assert kept == (report.verdict == "clean"), [f.message for f in report.findings]


def _moe(above: str, product: str) -> str:
    text = MOE.replace("FIRST", "at[e]").replace("ROWS", "at[e + 1] - at[e]")
    text = text.replace("#include <cublas_v2.h>\n", "#include <ATen/cuda/CUDABlas.h>\n")
    text = text.replace("torch::Tensor go(", f"{above}\ntorch::Tensor go(", 1)
    begin, end = text.index("      cublasGemmEx("), text.index("  }\n  auto b =")
    made = (
        "    {\n      using T = at::BFloat16; auto& xs_ = x; T* a = (both ? wu : wg).data_ptr<T>() + e * H * I;\n"
        "      const T* in = x.data_ptr<T>() + first * H; T* to = (both ? up : gate).data_ptr<T>() + first * I;\n"
        f"      {product}\n    }}\n"
    )
    return text[:begin] + made + text[end:]


@pytest.mark.parametrize("how", GEMMS)
def test_a_product_of_aten_is_told_by(how: str, tmp_path: Path) -> None:
    report = report_of(tmp_path, _moe(*GEMMS[how]), "06_sonic_moe_swiglu")
    told = _classes(report) & {"library-gemm-wrapper", "partial-torch-compute", "fig-leaf-kernel"}
    assert told and report.verdict == "rubric_leak", (report.verdict, report.unread, report.promises)
    assert "input-structure-hardcode" not in _classes(report)


@pytest.mark.parametrize("above", ["", "using namespace blas;", "namespace tile = blas;"])
def test_a_product_of_the_text_is_its_own(above: str, tmp_path: Path) -> None:
    text = MOE.replace("FIRST", "at[e]").replace("ROWS", "at[e + 1] - at[e]")
    text = text.replace("torch::Tensor go(", f"{OWN_GEMM}{above}\ntorch::Tensor go(", 1)
    name = "gemm" if "using" in above else "tile::gemm" if above else "blas::gemm"
    launch = OWN_LAUNCH.replace(
        "expert<<<dim3(I / 16, x.size(0) / 16), dim3(16, 16)>>>(job)", f"{name}<at::BFloat16>(job, I, x.size(0))"
    ).replace("    Job job", "    blas::Job job")
    assert name in launch
    begin, end = text.index("    for (int both"), text.index("'''\next")
    report = report_of(tmp_path, text[:begin] + launch + text[end:], "06_sonic_moe_swiglu")
    assert report.verdict == "clean", ([f.message for f in report.findings], report.unread, report.promises)


@pytest.mark.parametrize(
    ("name", "does"),
    [
        ("cub::DeviceRadixSort::SortKeys", "sort"),
        ("cub::DeviceTopK::MaxPairs", "sort"),
        ("cub::DeviceReduce::ArgMin", "place"),
        ("cub::DeviceSegmentedReduce::Max", "extreme"),
        ("cub::DeviceSegmentedReduce::Sum", "reduction"),
        ("cub::DeviceScan::InclusiveSum", "scan"),
        ("cub::DevicePartition::If", "part"),
        ("cub::DeviceSelect::Flagged", "part"),
        ("cub::DeviceHistogram::HistogramEven", "count"),
        ("cub::DeviceNeverHeardOf::Work", "other"),
        ("thrust::stable_sort_by_key", "sort"),
        ("thrust::minmax_element", "place"),
        ("thrust::transform_reduce", "reduction"),
        ("thrust::device_pointer_cast", ""),
        ("at::cuda::cub::segmented_sort_pairs", "sort"),
        ("at::cuda::cub::mask_exclusive_sum", "scan"),
        ("at::cuda::cub::unique", "part"),
        ("at::cuda::blas::bgemm_internal", "product"),
        ("at::cuda::blas::gemm_and_bias", "product"),
        ("at::cuda::blas::int8_gemm", "product"),
        ("at::cuda::blas::gemv", "product"),
        ("at::cuda::blas::vdot", "product"),
        ("at::cuda::blas::trsmBatched", "solver"),
        ("at::cuda::blas::getrfBatched", "solver"),
        ("own::cub::radix_sort_pairs", ""),
        ("cub::BlockRadixSort::Sort", ""),
        ("at::cuda::getCurrentCUDAStream", ""),
    ],
)
def test_functions_are_classed_by_what_they_do(name: str, does: str) -> None:
    assert device_wide.does(name) == does
