"""Numbers that the runtime copies between a tensor and memory of the host: what is done with them depends on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import classes, lint, reasons, states
from test_objects_of_cpp import solution as softmax

KERNEL = """
#include <torch/extension.h>
#include <cublas_v2.h>
#include <vector>
using T = __nv_bfloat16;
__global__ void group(const T* x, const T* g, const T* u, T* y, int rows, int H, int I) {
  int row = blockIdx.x, col = blockIdx.y * blockDim.x + threadIdx.x;
  float a = 0.f, b = 0.f;
  for (int k = 0; k < H; ++k) {
    a += __bfloat162float(x[row * H + k]) * __bfloat162float(g[k * I + col]);
    b += __bfloat162float(x[row * H + k]) * __bfloat162float(u[k * I + col]);
  }
  y[row * I + col] = __float2bfloat16(a / (1.f + __expf(-a)) * b);
}
__global__ void planned(const T* x, const T* g, const T* u, T* y, const int* owner, int H, int I) {
  int row = blockIdx.x, col = blockIdx.y * blockDim.x + threadIdx.x;
  const T* mine = g + (size_t)owner[row] * H * I;
  const T* other = u + (size_t)owner[row] * H * I;
  float a = 0.f, b = 0.f;
  for (int k = 0; k < H; ++k) {
    a += __bfloat162float(x[row * H + k]) * __bfloat162float(mine[k * I + col]);
    b += __bfloat162float(x[row * H + k]) * __bfloat162float(other[k * I + col]);
  }
  y[row * I + col] = __float2bfloat16(a / (1.f + __expf(-a)) * b);
}
__global__ void halves(const T* a, const T* b, T* y, long n) {
  long i = blockIdx.x * 256L + threadIdx.x;
  if (i >= n) return;
  float g = __bfloat162float(a[i]);
  y[i] = __float2bfloat16(g / (1.f + __expf(-g)) * __bfloat162float(b[i]));
}
torch::Tensor run(torch::Tensor x, torch::Tensor off, torch::Tensor wg, torch::Tensor wu) {
  int E = wg.size(0), H = wg.size(1), I = wg.size(2);
  auto y = torch::empty({x.size(0), I}, x.options());
  T *xp = (T*)x.data_ptr(), *gp = (T*)wg.data_ptr(), *up = (T*)wu.data_ptr(), *yp = (T*)y.data_ptr();
  READ
  WORK
  return y;
}
"""
READ = {
    "a vector": "std::vector<int> at(E + 1); "
    "cudaMemcpy(at.data(), off.data_ptr<int>(), 4 * (E + 1), cudaMemcpyDeviceToHost);",
    "a filled vector": "std::vector<int> at(E + 1, 0); "
    "cudaMemcpyAsync(&at[0], off.data_ptr<int>(), 4 * (E + 1), cudaMemcpyDefault, 0); cudaStreamSynchronize(0);",
    "an array": "int at[256]; cudaMemcpy(at, off.data_ptr(), 4 * (E + 1), cudaMemcpyDeviceToHost);",
}
OURS = """for (int e = 0; e < E; ++e) {
    int n = at[e + 1] - at[e];
    if (n == 0) continue;
    group<<<dim3(n, I / 128), 128>>>(xp + (size_t)at[e] * H, gp + (size_t)e * H * I, up + (size_t)e * H * I,
                                     yp + (size_t)at[e] * I, n, H, I);
  }"""
PLAN = """std::vector<int> who;
  for (int e = 0; e < E; ++e) for (int r = at[e]; r < at[e + 1]; ++r) who.push_back(e);
  auto owner = torch::empty({x.size(0)}, off.options());
  cudaMemcpy(owner.data_ptr<int>(), who.data(), 4 * who.size(), cudaMemcpyHostToDevice);
  planned<<<dim3(x.size(0), I / 128), 128>>>(xp, gp, up, yp, owner.data_ptr<int>(), H, I);"""
LIBRARY = """cublasHandle_t h; cublasCreate(&h);
  float one = 1.f, none = 0.f;
  auto a = torch::empty_like(y), b = torch::empty_like(y);
  for (int e = 0; e < E; ++e) {
    int n = at[e + 1] - at[e];
    if (n == 0) continue;
    cublasGemmEx(h, CUBLAS_OP_N, CUBLAS_OP_N, I, n, H, &one, gp + (size_t)e * H * I, CUDA_R_16BF, I,
                 xp + (size_t)at[e] * H, CUDA_R_16BF, H, &none, (T*)a.data_ptr() + (size_t)at[e] * I, CUDA_R_16BF, I,
                 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    cublasGemmEx(h, CUBLAS_OP_N, CUBLAS_OP_N, I, n, H, &one, up + (size_t)e * H * I, CUDA_R_16BF, I,
                 xp + (size_t)at[e] * H, CUDA_R_16BF, H, &none, (T*)b.data_ptr() + (size_t)at[e] * I, CUDA_R_16BF, I,
                 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  }
  halves<<<(y.numel() + 255) / 256, 256>>>((T*)a.data_ptr(), (T*)b.data_ptr(), yp, y.numel());"""


def solution(read: str, work: str) -> str:
    source = KERNEL.replace("READ", READ[read]).replace("WORK", work)
    return f"""import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SIGNATURE = "torch::Tensor run(torch::Tensor x, torch::Tensor off, torch::Tensor wg, torch::Tensor wu);"
ext = load_inline("experts", SIGNATURE, r'''{source}''', functions=["run"])


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states, expert_offsets):
        return ext.run(hidden_states, expert_offsets, self.W_gate, self.W_up)
"""


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("work", [OURS, PLAN], ids=["launches", "a plan"])
def test_launches_by_numbers_that_were_copied_read_them(tmp_path: Path, read: str, work: str) -> None:
    report = lint(tmp_path, solution(read, work), "06_sonic_moe_swiglu")
    assert not classes(report), (classes(report), reasons(report))
    assert states(report) == {"authored-compute": "kept", "ragged-offsets": "kept"}, reasons(report)


@pytest.mark.parametrize("read", READ)
def test_library_products_by_numbers_that_were_copied_are_found(tmp_path: Path, read: str) -> None:
    report = lint(tmp_path, solution(read, LIBRARY), "06_sonic_moe_swiglu")
    assert states(report)["authored-compute"] == "broken", reasons(report)
    assert report.verdict == "rubric_leak"


FROM_NOWHERE = """
#include <torch/extension.h>
#include <cfloat>
void* elsewhere();
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  cudaMemcpyAsync(y.data_ptr(), SOURCE, x.nbytes(), cudaMemcpyHostToDevice, 0);
  return y;
}
"""


@pytest.mark.parametrize("source", ["elsewhere()", 'getenv("X")'])
def test_memory_that_nobody_knows_is_not_clean(tmp_path: Path, source: str) -> None:
    text = softmax(FROM_NOWHERE.replace("SOURCE", source))
    assert lint(tmp_path, text, "04_kahan_softmax").verdict != "clean"


@pytest.mark.parametrize("call", ["cudaHostGetDevicePointer()", "cudaHostGetDevicePointer(&seen)", "cudaHostAlloc()"])
def test_calls_without_their_arguments_end_nothing(tmp_path: Path, call: str) -> None:
    body = f"void* seen = nullptr; {call}; cudaMemcpyAsync(y.data_ptr(), seen, x.nbytes(), cudaMemcpyHostToDevice, 0);"
    text = FROM_NOWHERE.replace("cudaMemcpyAsync(y.data_ptr(), SOURCE, x.nbytes(), cudaMemcpyHostToDevice, 0);", body)
    assert body in text
    report = lint(tmp_path, softmax(text), "04_kahan_softmax")
    assert report.verdict != "clean"
    assert not any("IndexError" in unread.reason for unread in report.unread)
