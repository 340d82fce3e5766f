"""What functions of the C library, the runtime and the driver write where they are told to, and what they leave."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import classes, lint, reasons, states

PROGRAM = (Path(__file__).parents[2] / "problems/01_fp8_gemm/honest/cuda.py").read_text()
ENTRY = "void fp8_gemm(torch::Tensor x, torch::Tensor weight, torch::Tensor scale, torch::Tensor y) {\n"
LEAK = "{ y.copy_(at::matmul(x.to(at::kBFloat16), weight.to(at::kBFloat16).t()) * scale); return; }"
STREAM = "at::cuda::getCurrentCUDAStream()"
CAPTURES = f"cudaStreamCaptureStatus s; cudaStreamIsCapturing({STREAM}, &s);"
HONEST = (
    CAPTURES,
    'int v; cudaDriverGetVersion(&v); if (v < 11000) throw std::runtime_error("old");',
    'int n = 0; cudaGetDeviceCount(&n); if (n == 0) throw std::runtime_error("none");',
    "cudaPointerAttributes at; cudaPointerGetAttributes(&at, x.data_ptr()); TORCH_CHECK(at.type == 2);",
    "int e; double m = frexp(3.0, &e); double w; modf(m, &w); int r; remquo(m, w, &r);",
    'int v; sscanf("3", "%d", &v); char* end; long n = strtol("12", &end, 10); TORCH_CHECK(v < n);',
    "unsigned seed = 3; int v = rand_r(&seed); (void)v;",
    'int n = 3; setlocale(LC_ALL, "C"); putchar(n); fflush(stdout); abs(n);',
    f"cudaEvent_t e; cudaEventCreate(&e); cudaEventRecord(e, {STREAM}); cudaEventQuery(e); cudaEventDestroy(e);",
    "RECORD_FUNCTION(\"fp8\", std::vector<c10::IValue>({}));",
    "cudaDriverEntryPointQueryResult q; void* f; cudaGetDriverEntryPoint(\"cuMemcpy\", &f, cudaEnableDefault, &q);\n"
    '  if (q != cudaDriverEntryPointSuccess) throw std::runtime_error("none");',
    "size_t f, t; cudaMemGetInfo(&f, &t); TORCH_CHECK(f <= t);",
)  # fmt: skip
LEAKS = (
    f"{CAPTURES} if (s == cudaStreamCaptureStatusActive) {LEAK}",
    f"{CAPTURES} if (s != cudaStreamCaptureStatusActive) {LEAK}",
    f"size_t f = 0, t = 0; cudaMemGetInfo(&f, &t); if (f > 1000) {LEAK}",
    f"int v = 0; cudaDriverGetVersion(&v); if (v >= 12000) {LEAK}",
    f"int n = 0; cudaGetDeviceCount(&n); if (n > 0) {LEAK}",
    f"CUdevice d = 3; cuDeviceGet(&d, 0); if (d == 0) {LEAK}",
    f"int e = 0; frexp(x.size(0), &e); if (e > 0) {LEAK}",
    f"unsigned seed = 3; rand_r(&seed); if (seed != 3) {LEAK}",
    f'int v = 0; sscanf("3", "%d", &v); if (v) {LEAK}',
    f"cudaPointerAttributes at; cudaPointerGetAttributes(&at, x.data_ptr()); if (at.type == 2) {LEAK}",
    f"int low = 0, high = 0; cudaDeviceGetStreamPriorityRange(&low, &high); if (high < 0) {LEAK}",
    f"Dl_info at; dladdr((void*)&pad_rows, &at); if (at.dli_fname) {LEAK}",
    f"int g = 0; change(&g); if (g) {LEAK}",
)


def program(statement: str) -> str:
    assert PROGRAM.count(ENTRY) == 1
    return PROGRAM.replace(ENTRY, f"{ENTRY}  {{ {statement} }}\n")


@pytest.mark.share(3)
@pytest.mark.parametrize("statement", HONEST)
def test_asking_changes_nothing_else(tmp_path: Path, statement: str) -> None:
    report = lint(tmp_path, program(statement))
    assert (report.verdict, classes(report)) == ("clean", set()), reasons(report)
    assert set(states(report).values()) == {"kept"}, reasons(report)


@pytest.mark.share(3)
@pytest.mark.parametrize("statement", LEAKS)
def test_what_is_written_is_not_what_was_there(tmp_path: Path, statement: str) -> None:
    assert lint(tmp_path, program(statement)).verdict != "clean"
