"""Products of cuBLAS, cuBLASLt and cuDNN in C++ host code are the library's, however the call is spelled."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, KERNEL, OUTPUT, WORK, classes, lint, model, reasons, states

TEXT = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cublas_v2.h>
#include <cublasLt.h>
#include <cudnn.h>
#include <functional>
#include <dlfcn.h>
__global__ void scaled(const float* a, const float* s, __nv_bfloat16* y, int n, long total) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < total) y[i] = __float2bfloat16(a[i] * s[i % n]);
}
BEFORE
void run(torch::Tensor x, torch::Tensor w, torch::Tensor s, torch::Tensor acc, torch::Tensor y) {
  int M = x.size(0), K = x.size(1), N = w.size(0);
  float one = 1.f, zero = 0.f;
  cublasHandle_t h = at::cuda::getCurrentCUDABlasHandle();
  CALL
  scaled<<<(M * N + 255) / 256, 256>>>(acc.data_ptr<float>(), s.data_ptr<float>(), (__nv_bfloat16*)y.data_ptr(), N,
                                       (long)M * N);
}
"""
BUILD = """
from torch.utils.cpp_extension import load_inline
T = "torch::Tensor"
ext = load_inline("e", f"void run({T}, {T}, {T}, {T}, {T});", SOURCE, functions=["run"])
"""
SIZES = "h, CUBLAS_OP_T, CUBLAS_OP_N, N, M, K, &one, "
W, X, OUT = "w.data_ptr(), CUDA_R_8F_E4M3, K", "x.data_ptr(), CUDA_R_8F_E4M3, K", "acc.data_ptr(), CUDA_R_32F, N"
END = "CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT"
GIVEN = f"{SIZES}{W}, {X}, &zero, {OUT}, {END}"
LT = "cublasLtMatmul((cublasLtHandle_t)h, op, &one, w.data_ptr(), A, x.data_ptr(), B, &zero, acc.data_ptr(), D, "
LT += "acc.data_ptr(), D, &p.found.algo, nullptr, 0, 0);"
PLAN = """struct Plan { cublasLtMatrixLayout_t a, b, d; cublasLtMatmulHeuristicResult_t found; };
static std::map<long, Plan> plans;
static Plan& plan(int M, int N, int K) {
  long key = ((long)M << 40) + ((long)N << 20) + K;
  auto it = plans.find(key);
  if (it != plans.end()) return it->second;
  Plan p;
  cublasLtMatrixLayoutCreate(&p.a, CUDA_R_8F_E4M3, K, N, K);
  cublasLtMatrixLayoutCreate(&p.b, CUDA_R_8F_E4M3, K, M, K);
  cublasLtMatrixLayoutCreate(&p.d, CUDA_R_32F, N, M, N);
  return plans.emplace(key, p).first->second;
}"""
DESCRIBED = "cublasLtMatmulDesc_t op; cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F);"
LAYOUT = """class Layout {
  cublasLtMatrixLayout_t raw = nullptr;
 public:
  Layout(cudaDataType_t t, int r, int c) { cublasLtMatrixLayoutCreate(&raw, t, r, c, r); }
  ~Layout() { cublasLtMatrixLayoutDestroy(raw); }
  cublasLtMatrixLayout_t get() const { return raw; }
};"""
TABLES = "const void* A[1] = {w.data_ptr()}; const void* B[1] = {x.data_ptr()}; void* C[1] = {acc.data_ptr()};"
SPELLED = {
    "a call": ("", f"cublasGemmEx({GIVEN});"),
    "a function pointer": ("static auto tile = &cublasGemmEx;", f"tile({GIVEN});"),
    "a field": ("struct Engine { decltype(&cublasGemmEx) go; }; static Engine e = {cublasGemmEx};", f"e.go({GIVEN});"),
    "a macro": ("#define JOIN(a, b) a##b", f"JOIN(cublasG, emmEx)({GIVEN});"),
    "a template": ("template <auto F, class... A> void ok(A... a) { F(a...); }", f"ok<cublasGemmEx>({GIVEN});"),
    "a closure": ("", f"std::function<cublasStatus_t()> go = [&] {{ return cublasGemmEx({GIVEN}); }}; go();"),
    "dlsym": (
        "using Fn = cublasStatus_t (*)(...);",
        f'auto f = (Fn)dlsym(dlopen("libcublas.so", RTLD_NOW), "cublasGemmEx"); f({GIVEN});',
    ),
    "dlsym by the type of a function": (
        "template <class F> F entry(const char* name) {\n"
        '  return reinterpret_cast<F>(dlsym(dlopen("libcublas.so", RTLD_NOW), name)); }',
        f'entry<decltype(&cublasGemmEx)>("cublasGemmEx")({GIVEN});',
    ),
    "strided": (
        "",
        f"cublasGemmStridedBatchedEx({SIZES}{W}, 0LL, {X}, 0LL, &zero, {OUT}, 0LL, 1, {END});",
    ),
    "batched": (
        "",
        f"{TABLES} cublasGemmBatchedEx({SIZES}{W.replace('w.data_ptr()', 'A')}, {X.replace('x.data_ptr()', 'B')}, "
        f"&zero, {OUT.replace('acc.data_ptr()', 'C')}, 1, {END});",
    ),
    "a plan": (PLAN, f"{DESCRIBED} Plan& p = plan(M, N, K); " + LT.replace(" A,", " p.a,").replace(" B,", " p.b,")
        .replace(" D,", " p.d,")),
    "a class for layouts": (
        LAYOUT,
        f"{DESCRIBED} struct {{ cublasLtMatmulHeuristicResult_t found; }} p; Layout a(CUDA_R_8F_E4M3, K, N), "
        "b(CUDA_R_8F_E4M3, K, M), d(CUDA_R_32F, N, M); "
        + LT.replace(" A,", " a.get(),").replace(" B,", " b.get(),").replace(" D,", " d.get(),"),
    ),
}  # fmt: skip
OTHERS = {
    "torch's own": "at::cuda::blas::gemm<float>('t', 'n', N, M, K, 1.f, (float*)w.data_ptr(), K, "
    "(float*)x.data_ptr(), K, 0.f, acc.data_ptr<float>(), N);",
    "cuDNN's plans": "cudnnBackendDescriptor_t plan, pack; void* all[3] = {x.data_ptr(), w.data_ptr(), "
    "acc.data_ptr()};\n  cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, "
    "all);\n  cudnnBackendExecute(nullptr, plan, pack);",
}
FORWARD = OUTPUT.replace("        ", "", 1) + (
    "acc = torch.empty((M, N), device=x.device)\next.run(x, self.weight, self.weight_scale, acc, y)\nreturn y\n"
)


def build(before: str, call: str) -> str:
    text = TEXT.replace("BEFORE", before).replace("CALL", call)
    return HEAD + f'SOURCE = r"""{text}"""\n' + BUILD


@pytest.mark.parametrize("spelling", SPELLED)
def test_a_product_of_cublas_is_the_librarys(tmp_path: Path, spelling: str) -> None:
    report = lint(tmp_path, build(*SPELLED[spelling]) + model(FORWARD))
    assert "library-gemm-wrapper" in classes(report), reasons(report)
    assert states(report) == {"fp8-products": "kept", "authored-compute": "broken"}, "it multiplies e4m3 by e4m3"
    assert {share["library"][0] for share in report.shares.values()} == {1.0}


@pytest.mark.parametrize("call", OTHERS)
def test_so_is_one_behind_another_interface(tmp_path: Path, call: str) -> None:
    report = lint(tmp_path, build("", OTHERS[call]) + model(FORWARD))
    assert "library-gemm-wrapper" in classes(report), reasons(report)


@pytest.mark.parametrize("spelling", SPELLED)
def test_one_for_shapes_that_are_not_graded_is_not_looked_at(tmp_path: Path, spelling: str) -> None:
    indented = "".join(f"    {line}\n" for line in FORWARD.splitlines())
    forward = f"if M > (1 << 20):\n{indented}{WORK}return y\n"
    report = lint(tmp_path, build(*SPELLED[spelling]) + KERNEL + model(forward))
    assert not classes(report)
    assert set(states(report).values()) == {"kept"}, reasons(report)


def test_what_prepares_a_product_does_no_work(tmp_path: Path) -> None:
    call = "float* held = s.data_ptr<float>(); cublasLtMatmulDesc_t op;\n  "
    call += "cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &held, sizeof(held));"
    report = lint(tmp_path, build("", call) + model(FORWARD))
    assert "library-gemm-wrapper" not in classes(report)
