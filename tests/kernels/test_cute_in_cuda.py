"""Kernels in CUDA that multiply with CuTe: what a tiled product runs on is told by its atom."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

from kbh_lint import lint

TEXT = r'''# kbh: problem=01_fp8_gemm
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
SOURCE = r"""
#include <torch/extension.h>
#include <cute/tensor.hpp>
using namespace cute;
using In = cutlass::float_e4m3_t;
using Held = HELD;
using Mma = TiledMMA<MMA_Atom<ATOM>, Layout<Shape<_2, _2, _1>>>;
template <int M, int N, int K>
__global__ void tiles(const In* x, const In* w, const float* s, cutlass::bfloat16_t* y, int rows, int cols, int depth) {
  __shared__ Held a[M * K];
  __shared__ Held b[N * K];
  Mma mma;
  auto mine = mma.get_slice(threadIdx.x);
  Tensor A = make_tensor(make_smem_ptr(a), make_layout(make_shape(Int<M>{}, Int<K>{}), make_stride(Int<K>{}, _1{})));
  Tensor B = make_tensor(make_smem_ptr(b), make_layout(make_shape(Int<N>{}, Int<K>{}), make_stride(Int<K>{}, _1{})));
  Tensor at = mine.partition_C(make_identity_tensor(make_shape(Int<M>{}, Int<N>{})));
  Tensor ra = mine.partition_fragment_A(A), rb = mine.partition_fragment_B(B);
  Tensor acc = partition_fragment_C(mma, make_shape(Int<M>{}, Int<N>{}));
  clear(acc);
  for (int k = 0; k < depth; k += K) {
    for (int i = threadIdx.x; i < M * K; i += 128)
      a[i] = k + i % K < depth ? Held(x[(blockIdx.y * M + i / K) * depth + k + i % K]) : Held(0.f);
    for (int i = threadIdx.x; i < N * K; i += 128)
      b[i] = k + i % K < depth ? Held(w[(blockIdx.x * N + i / K) * depth + k + i % K]) : Held(0.f);
    __syncthreads();
    copy(mine.partition_A(A), ra);
    copy(mine.partition_B(B), rb);
    gemm(mma, ra, rb, acc);
    __syncthreads();
  }
  for (int i = 0; i < size(acc); ++i) {
    const int r = blockIdx.y * M + get<0>(at(i)), c = blockIdx.x * N + get<1>(at(i));
    if (r < rows && c < cols) y[r * cols + c] = cutlass::bfloat16_t(acc(i) * s[c]);
  }
}
at::Tensor run(at::Tensor x, at::Tensor w, at::Tensor s) {
  auto y = at::empty({x.size(0), w.size(0)}, x.options().dtype(at::kBFloat16));
  tiles<32, 64, 32><<<dim3(w.size(0) / 64, x.size(0) / 32), 128>>>(
      (const In*)x.data_ptr(), (const In*)w.data_ptr(), s.data_ptr<float>(), (cutlass::bfloat16_t*)y.data_ptr(),
      x.size(0), w.size(0), x.size(1));
  return y;
}
"""
ext = load_inline("e", cpp_sources="at::Tensor run(at::Tensor x, at::Tensor w, at::Tensor s);", cuda_sources=SOURCE,
                  functions=["run"])
class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))
    def forward(self, x):
        return ext.run(x, self.weight, self.weight_scale)
'''


@pytest.mark.parametrize(
    ("atom", "held", "verdict", "state"),
    [
        ("SM89_16x8x32_F32E4M3E4M3F32_TN", "cutlass::float_e4m3_t", "clean", "kept"),
        ("SM80_16x8x16_F32F16F16F32_TN", "cutlass::half_t", "rubric_leak", "broken"),
        ("SM80_16x8x16_F32BF16BF16F32_TN", "cutlass::bfloat16_t", "rubric_leak", "broken"),
    ],
)
def test_an_atom_says_what_a_tiled_product_runs_on(
    tmp_path: Path, atom: str, held: str, verdict: str, state: str
) -> None:
    report = report_of(tmp_path, TEXT.replace("ATOM", atom).replace("HELD", held))
    states = {promise.id: promise.state for promise in report.promises}
    assert (report.verdict, states["fp8-products"]) == (verdict, state), report.promises


@pytest.mark.parametrize(
    ("atom", "held", "verdict"),
    [
        ("SM89_16x8x32_F32E4M3E4M3F32_TN", "cutlass::float_e4m3_t", "clean"),
        ("SM80_16x8x16_F32BF16BF16F32_TN", "cutlass::bfloat16_t", "rubric_leak"),
    ],
)
def test_an_atom_may_be_named_where_it_is_used(tmp_path: Path, atom: str, held: str, verdict: str) -> None:
    named = "decltype(make_tiled_mma(ATOM{}, Layout<Shape<_2, _2, _1>>{}))"
    text = TEXT.replace("TiledMMA<MMA_Atom<ATOM>, Layout<Shape<_2, _2, _1>>>", named)
    assert text != TEXT
    report = report_of(tmp_path, text.replace("ATOM", atom).replace("HELD", held))
    assert (report.verdict, report.unread) == (verdict, ())


PIECES = (  # the same product step by step, each step's number a type
    "gemm(mma, ra, rb, acc);",
    "for_each(make_int_sequence<size<2>(ra)>{}, [&](auto i) { gemm(mma, ra(_, _, i), rb(_, _, i), acc); });",
)


@pytest.mark.parametrize(
    ("atom", "held", "verdict"),
    [
        ("SM89_16x8x32_F32E4M3E4M3F32_TN", "cutlass::float_e4m3_t", "clean"),
        ("SM80_16x8x16_F32BF16BF16F32_TN", "cutlass::bfloat16_t", "rubric_leak"),
    ],
)
def test_a_product_in_a_function_that_is_called_for_each_step(
    tmp_path: Path, atom: str, held: str, verdict: str
) -> None:
    path = tmp_path / "solution.py"
    text = TEXT.replace("ATOM", atom).replace("HELD", held)
    assert PIECES[0] in text
    path.write_text(text.replace(*PIECES), encoding="utf-8")
    (report,) = lint([path], raise_errors=True).files
    assert report.verdict == verdict and {p.state for p in report.promises} <= {"kept", "broken"}, report.promises


def test_a_function_that_is_not_known_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "solution.py"
    text = TEXT.replace("ATOM", "SM89_16x8x32_F32E4M3E4M3F32_TN").replace("HELD", "cutlass::float_e4m3_t")
    path.write_text(text.replace(PIECES[0], "for_each(make_int_sequence<2>{}, Step<Mma>{});"), encoding="utf-8")
    (report,) = lint([path], raise_errors=True).files
    assert report.verdict == "unproven", report.promises


TILED = r'''# kbh: problem=01_fp8_gemm
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline
SOURCE = r"""
#include <torch/extension.h>
#include <cute/tensor.hpp>
namespace ct = cute;
template <class E, int M, int N, int K, class Tiled>
__global__ void product(float* y, const E* x, const E* w, int rows, int cols, int depth) {
  ct::Tensor A = ct::make_tensor(ct::make_gmem_ptr(x), ct::make_shape(rows, depth), ct::make_stride(depth, ct::_1{}));
  ct::Tensor B = ct::make_tensor(ct::make_gmem_ptr(w), ct::make_shape(cols, depth), ct::make_stride(depth, ct::_1{}));
  ct::Tensor C = ct::make_tensor(ct::make_gmem_ptr(y), ct::make_shape(rows, cols), ct::make_stride(cols, ct::_1{}));
  using ct::_;
  auto a = ct::local_tile(A, ct::make_tile(ct::Int<M>{}, ct::Int<K>{}), ct::make_coord(blockIdx.y, _));
  auto b = ct::local_tile(B, ct::make_tile(ct::Int<N>{}, ct::Int<K>{}), ct::make_coord(blockIdx.x, _));
  auto c = ct::local_tile(C, ct::make_tile(ct::Int<M>{}, ct::Int<N>{}), ct::make_coord(blockIdx.y, blockIdx.x));
  Tiled tiled;
  auto mine = tiled.get_slice(threadIdx.x);
  auto from_a = mine.partition_A(a), from_b = mine.partition_B(b);
  auto ra = mine.partition_fragment_A(a(_, _, 0));
  auto rb = mine.partition_fragment_B(b(_, _, 0));
  auto sums = mine.partition_fragment_C(c);
  ct::clear(sums);
  for (int k = 0; k < ct::size<2>(a); ++k) {
    ct::copy(from_a(_, _, _, k), ra);
    ct::copy(from_b(_, _, _, k), rb);
    GEMM
  }
  ct::copy(sums, mine.partition_C(c));
}
__global__ void scaled(const float* sums, const float* s, __nv_bfloat16* y, long total, int cols) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < total) y[i] = __float2bfloat16(sums[i] * s[i % cols]);
}
at::Tensor run(at::Tensor x, at::Tensor w, at::Tensor s) {
  using namespace cute;
  using E = ELEMENT;
  using Atom = MMA_Atom<MMA_Traits<ATOM>>;
  using Tiled = decltype(make_tiled_mma(Atom{}, make_layout(Shape<_2, _2, _1>{}), Tile<_32, _32, _32>{}));
  auto sums = at::empty({x.size(0), w.size(0)}, x.options().dtype(at::kFloat));
  auto y = at::empty(sums.sizes(), x.options().dtype(at::kBFloat16));
  dim3 grid(w.size(0) / 64, x.size(0) / 32);
  product<E, 32, 64, 32, Tiled><<<grid, 128>>>(sums.data_ptr<float>(), (const E*)x.data_ptr(), (const E*)w.data_ptr(),
                                               x.size(0), w.size(0), x.size(1));
  long total = sums.numel();
  scaled<<<(total + 255) / 256, 256>>>(sums.data_ptr<float>(), s.data_ptr<float>(), (__nv_bfloat16*)y.data_ptr(),
                                       total, w.size(0));
  return y;
}
"""
ext = load_inline("t", cpp_sources="at::Tensor run(at::Tensor x, at::Tensor w, at::Tensor s);", cuda_sources=SOURCE,
                  functions=["run"])
class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))
    def forward(self, x):
        gap = -x.shape[1] % 32
        x, w = (F.pad(t.view(torch.uint8), (0, gap)).view(torch.float8_e4m3fn) for t in (x, self.weight))
        return ext.run(xVIEW, wVIEW, self.weight_scale)
'''


@pytest.mark.parametrize("product", ["ct::gemm(tiled, sums, ra, rb, sums);", "ct::gemm(tiled, ra, rb, sums);"])
@pytest.mark.parametrize(
    ("atom", "element", "view", "state"),
    [
        ("SM89_16x8x32_F32E4M3E4M3F32_TN", "cutlass::float_e4m3_t", "", "kept"),
        ("SM80_16x8x16_F32F16F16F32_TN", "cute::half_t", ".to(torch.float16)", "broken"),
    ],
)
def test_slices_of_tiles_are_multiplied_by_a_product_made_of_an_atom(
    tmp_path: Path, atom: str, element: str, view: str, state: str, product: str
) -> None:
    text = TILED.replace("GEMM", product).replace("ATOM", atom).replace("ELEMENT", element).replace("VIEW", view)
    report = report_of(tmp_path, text)
    states = {promise.id: (promise.state, promise.reason) for promise in report.promises}
    assert states["fp8-products"][0] == state and states["authored-compute"][0] == "kept", states
    assert bool(report.findings) == (state == "broken"), report.findings


@pytest.mark.parametrize(("sums", "narrow"), [("F16", True), ("F32", False)])
def test_an_atom_says_in_what_sums_are_kept(tmp_path: Path, sums: str, narrow: bool) -> None:
    guard = "ct::copy_if(ct::make_tensor<bool>(ct::make_shape(1)), from_a(_, _, _, k), ra);"
    text = TILED.replace("ct::copy(from_a(_, _, _, k), ra);", guard).replace("GEMM", "ct::gemm(tiled, ra, rb, sums);")
    text = text.replace("ATOM", f"SM80_16x8x16_{sums}F16F16{sums}_TN").replace("ELEMENT", "cute::half_t")
    report = report_of(tmp_path, text.replace("VIEW", ".to(torch.float16)"))
    classes = {finding.leak_class for finding in report.findings}
    assert classes == {"fp8-upcast-bf16-gemm"} | ({"precision-downcast"} if narrow else set()), report.findings


@pytest.mark.parametrize("word", ["fill(y, total)", "select(y)", "axpby(1.0f, sums, 0.0f, y)"])
def test_a_word_of_cute_s_is_its_own_only_where_it_is_used(tmp_path: Path, word: str) -> None:
    text = TILED.replace("GEMM", "ct::gemm(tiled, ra, rb, sums);").replace("ATOM", "SM89_16x8x32_F32E4M3E4M3F32_TN")
    text = text.replace("ELEMENT", "cutlass::float_e4m3_t").replace("VIEW", "")
    line = "long i = blockIdx.x * (long)blockDim.x + threadIdx.x;"
    for namespace, state in (("", "unproven"), ("using namespace cute; ", "kept")):
        report = report_of(tmp_path, text.replace(line, f"{namespace}{line} {word};"))
        assert {promise.state for promise in report.promises} == {state}, (namespace, report.promises)
