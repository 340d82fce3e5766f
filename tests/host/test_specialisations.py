"""A class template that is specialised for some arguments is what that says, in kernels and on the host."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import BINDING, CUDA, HEAD, classes, lint, model, reasons

LOOP = "  for (int k = 0; k < K; ++k) total += float(x[row * K + k]) * float(w[col * K + k]);\n"
PRODUCT = """
  __shared__ T a[256];
  __shared__ T b[256];
  for (int k = 0; k < K; ++k) { a[k] = T(float(x[row * K + k])); b[k] = T(float(w[col * K + k])); }
  wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  total = fc.x[0];
"""
NUMBER = "template <int N> struct Of { using type = ANY; };\ntemplate <> struct Of<3> { using type = ONE; };\n"
TYPE = "template <typename Q> struct Of { using type = ANY; };\ntemplate <> struct Of<float> { using type = ONE; };\n"
PARTLY = (
    "template <typename Q, int N> struct Of { using type = ANY; };\n"
    "template <typename Q> struct Of<Q, 2> { using type = ONE; };\n"
)
# The templates, what names the type in the kernel, and how the kernel is launched.
WAYS = {
    "a number": (NUMBER, "using T = typename Of<3>::type;", "gemm"),
    "a type": (TYPE, "using T = typename Of<float>::type;", "gemm"),
    "some of the arguments": (PARTLY, "using T = typename Of<float, 2>::type;", "gemm"),
    "a launch": (NUMBER + "template <typename T> ", "", "gemm<typename Of<3>::type>"),
}


def submission(way: str, any_type: str, one_type: str) -> str:
    templates, alias, kernel = WAYS[way]
    templates = templates.replace("ANY", any_type).replace("ONE", one_type)
    source = CUDA.replace(LOOP, f"  {alias}{PRODUCT}").replace("gemm<<<", f"{kernel}<<<")
    source = source.replace("__global__", f"#include <mma.h>\nusing namespace nvcuda;\n{templates}__global__", 1)
    build = f"from torch.utils.cpp_extension import load_inline\next = load_inline('e', '', r'''{source}{BINDING}''')\n"
    return HEAD + build + model("return ext.run(x, self.weight, self.weight_scale)")


@pytest.mark.parametrize("way", WAYS)
def test_a_specialisation_decides_on_which_type_products_run(tmp_path: Path, way: str) -> None:
    report = lint(tmp_path, submission(way, "__nv_fp8_e4m3", "__nv_bfloat16"))
    assert classes(report) == {"fp8-upcast-bf16-gemm"}, reasons(report)
    report = lint(tmp_path, submission(way, "__nv_bfloat16", "__nv_fp8_e4m3"))
    assert not classes(report), classes(report)


def test_static_functions_of_a_specialisation_are_called(tmp_path: Path) -> None:
    """On the host too."""
    functions = "template <int N> struct Op { static int f() { return 1; } int n = 1; };\n"
    functions += "template <> struct Op<2> { static int f() { return 2; } int n = 2; };\n"
    leak = "return (at::matmul(x.to(at::kBFloat16), w.to(at::kBFloat16).t()) * s).to(at::kBFloat16);"
    source = CUDA.replace("torch::Tensor run(", functions + "torch::Tensor run(")
    source = source.replace(
        "  int M =", f"  Op<2> made;\n  if (Op<2>::f() == 2 && made.n == 2) {{ {leak} }}\n  int M ="
    )
    build = f"from torch.utils.cpp_extension import load_inline\next = load_inline('e', '', r'''{source}{BINDING}''')\n"
    report = lint(tmp_path, HEAD + build + model("return ext.run(x, self.weight, self.weight_scale)"))
    assert "library-gemm-wrapper" in classes(report), reasons(report)
