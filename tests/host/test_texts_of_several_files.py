"""C++ in several files: headers of the submission's own, functions declared by their type, operators registered by
sources that a pattern finds, and what a call may have done that no file defines."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD as TRITON
from host_support import KERNEL as KERNEL_OF_TRITON
from host_support import classes, lint, states

HEADER = """#pragma once
#include <cuda_runtime.h>
#include <cuda_fp8.h>
#include <cuda_bf16.h>
__device__ void step(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
    "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#define OUT(v) __float2bfloat16(v)
"""
KERNEL = """#include "parts/mma.cuh"
using u8 = unsigned char;
__global__ void gemm(const u8* x, const u8* w, const float* s, __nv_bfloat16* y, int M, int N, int K) {
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  const size_t r = blockIdx.y * 16 + g, c = blockIdx.x * 8 + g;
  float d[4] = {};
  for (int k = 0; k < K; k += 32) {
    unsigned a[4], b[2];
    for (int i = 0; i < 4; ++i) a[i] = *(const unsigned*)(x + (r + (i % 2) * 8) * K + k + (i / 2) * 16 + t * 4);
    for (int i = 0; i < 2; ++i) b[i] = *(const unsigned*)(w + c * K + k + i * 16 + t * 4);
    step(d, a, b);
  }
  for (int i = 0; i < 4; ++i)
    y[(blockIdx.y * 16 + g + (i / 2) * 8) * (size_t)N + blockIdx.x * 8 + t * 2 + i % 2] = OUT(d[i] * s[0]);
}
"""
GO = """void go(const unsigned char* x, const unsigned char* w, const float* s, __nv_bfloat16* y, int M, int N, int K) {
  gemm<<<dim3(N / 8, M / 16), 32>>>(x, w, s, y, M, N, K);
}
"""
RUN = """#include <torch/extension.h>
#include "parts/mma.cuh"
DECLARED
torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor s) {
  if (x.options().dtype() != torch::kFloat8_e4m3fn) throw std::runtime_error("no fp8");
  auto y = torch::empty({x.size(0), w.size(0)}, x.options().dtype(torch::kBFloat16));
  if (w.dtype() == at::kChar) return y;
  CALLED
  return y;
}
"""
CALL = """go((const unsigned char*)x.data_ptr(), (const unsigned char*)w.data_ptr(), s.data_ptr<float>(),
     (__nv_bfloat16*)y.data_ptr(), x.size(0), w.size(0), x.size(1));"""
DECLARED = "void go(const unsigned char*, const unsigned char*, const float*, __nv_bfloat16*, int, int, int);"
BIND = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }\n'
OPERATOR = 'TORCH_LIBRARY(mine, m) { m.def("run(Tensor x, Tensor w, Tensor s) -> Tensor"); m.impl("run", &run); }\n'
HEAD = """import torch
import torch.nn as nn
from pathlib import Path
from torch.utils.cpp_extension import load
HERE = Path(__file__).parent
"""
LOAD = 'ext = load("own", sources=[str(HERE / "bind.cpp"), str(HERE / "gemm.cu")])\n'
MODEL = """
class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        return CALLED(x, self.weight, self.weight_scale)
"""
WIDE = """    for (int i = 0; i < 4; ++i) d[i] += 0.f;
    const __nv_fp8_e4m3 *p = (const __nv_fp8_e4m3*)(x + r * K + k), *q = (const __nv_fp8_e4m3*)(w + c * K + k);
    for (int i = 0; i < 4; ++i) d[i] += float(*p) * float(*q);
"""


def bundle(main: str, **files: str) -> str:
    """One text of a solution and the files beside it."""
    names = {"bind": "bind.cpp", "gemm": "gemm.cu", "header": "parts/mma.cuh"}
    return main + "".join(
        f"# ===== sidecar: {names[key]} ({len(text.encode())} bytes, loaded by solution.py) =====\n{text}"
        for key, text in files.items()
    )


def of_files(
    gemm: str = KERNEL + GO, declared: str = DECLARED, called: str = CALL, bind: str = BIND, load: str = LOAD
) -> str:
    text = RUN.replace("DECLARED", declared).replace("CALLED", called) + bind
    model = MODEL.replace("CALLED", "ext.run" if bind is BIND else "torch.ops.mine.run")
    return bundle(HEAD + load + model, bind=text, gemm=gemm, header=HEADER)


ALIAS = """template <typename T> using GoOf = void(const T*, const T*, const float*, __nv_bfloat16*, int, int, int);
using Go = GoOf<unsigned char>;
Go go;"""
PATTERN = 'load("own", sources=[str(p) for p in sorted(HERE.glob("*.c*"))], is_python_module=False)\n'


@pytest.mark.parametrize("way", ["declared", "declared by its type", "registered", "found by a pattern"])
@pytest.mark.parametrize("honest", [True, False])
def test_a_kernel_whose_product_stands_in_a_header(way: str, honest: bool, tmp_path: Path) -> None:
    gemm = KERNEL + GO
    if not honest:
        gemm = gemm.replace("    step(d, a, b);\n", WIDE)
    text = of_files(
        gemm,
        declared=ALIAS if way == "declared by its type" else DECLARED,
        bind=BIND if way.startswith("declared") else OPERATOR,
        load=PATTERN if way == "found by a pattern" else LOAD,
    )
    report = lint(tmp_path, text, "01_fp8_gemm")
    if honest:
        assert states(report) == {"fp8-products": "kept", "authored-compute": "kept"}, report.findings
    else:
        assert states(report)["fp8-products"] == "broken", report.findings


@pytest.mark.parametrize(
    "text",
    [
        of_files(declared="", called=CALL.replace("go(", "launch_it(")),
        of_files(declared="", called='GO_ON_TYPE(x.dtype(), "auto", LAUNCH);'),
        of_files(
            bind=OPERATOR,
            load='load("own", sources=[str(p) for p in HERE.glob(open("names").read())], is_python_module=False)\n',
        ),
    ],
    ids=["a function", "a macro", "an operator"],
)
def test_what_no_file_defines_is_unread_and_no_leak(text: str, tmp_path: Path) -> None:
    report = lint(tmp_path, text, "01_fp8_gemm")
    assert report.verdict == "unproven", report.findings
    assert "kept" not in states(report).values()


def test_an_output_that_nothing_writes_is_still_found(tmp_path: Path) -> None:
    report = lint(tmp_path, of_files(called=""), "01_fp8_gemm")
    assert "unwritten-output" in classes(report)


LINEAR = """
class Linear(torch.autograd.Function):
    def forward(ctx, x, weight, weight_scale):
        BODY

linear = Linear.apply
"""


@pytest.mark.parametrize("honest", [True, False])
def test_a_function_of_autograd_whose_forward_is_no_static_method(honest: bool, tmp_path: Path) -> None:
    launch = """(M, K), N = x.shape, weight.shape[0]
        y = torch.empty((M, N), dtype=torch.bfloat16, device=x.device)
        gemm[(triton.cdiv(M, 64), N // 128)](x, weight, weight_scale, y, M, N, K, BM=64, BN=128, BK=64)
        return y"""
    torch = "return ((x.to(torch.bfloat16) @ weight.to(torch.bfloat16).t()) * weight_scale).to(torch.bfloat16)"
    text = TRITON + KERNEL_OF_TRITON + LINEAR.replace("BODY", launch if honest else torch)
    report = lint(tmp_path, text + MODEL.replace("CALLED", "linear"))
    if honest:
        assert set(states(report).values()) == {"kept"}, report.findings
    else:
        assert classes(report) & {"library-gemm-wrapper", "zero-kernel-torch-wrapper"}
