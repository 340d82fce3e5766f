"""What C++ hosts leave to libraries is told by whatever name, and depends on the numbers that it is given."""

from __future__ import annotations

from pathlib import Path

import pytest

import kbh_lint
from kbh_lint.findings import FileReport

KDA = r"""import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
#include <cuda_bf16.h>
constexpr int C = 64, D = 128;
__global__ void prepare(const __nv_bfloat16* k, const __nv_bfloat16* v, const float* g, const __nv_bfloat16* beta,
                        float* sys, float* rhs, int T, int H) {
  const int c = blockIdx.x % (T / C), h = blockIdx.x / (T / C) % H, b = blockIdx.x / (T / C) / H;
  __shared__ float up[C][D], down[C][D];
  for (int d = threadIdx.x; d < D; d += blockDim.x) {
    float s = 0.f;
    for (int i = 0; i < C; ++i) {
      long row = ((long)b * T + c * C + i) * H + h;
      s += g[row * D + d];
      float bt = __bfloat162float(beta[row]), key = __bfloat162float(k[row * D + d]);
      up[i][d] = bt * key * __expf(s);
      down[i][d] = key * __expf(-s);
      rhs[((long)blockIdx.x * C + i) * 2 * D + d] = up[i][d];
      rhs[((long)blockIdx.x * C + i) * 2 * D + D + d] = bt * __bfloat162float(v[row * D + d]);
    }
  }
  __syncthreads();
  for (int e = threadIdx.x; e < C * C; e += blockDim.x) {
    float a = 0.f;
    for (int d = 0; d < D; ++d) a += up[e / C][d] * down[e % C][d];
    sys[(long)blockIdx.x * C * C + e] = e / C == e % C ? 1.f : e / C > e % C ? a : 0.f;
  }
}
__global__ void substitute(const float* sys, const float* rhs, float* out) {
  const float* a = sys + (long)blockIdx.x * C * C;
  for (int d = threadIdx.x; d < 2 * D; d += blockDim.x)
    for (int i = 0; i < C; ++i) {
      float x = rhs[((long)blockIdx.x * C + i) * 2 * D + d];
      for (int j = 0; j < i; ++j) x -= a[i * C + j] * out[((long)blockIdx.x * C + j) * 2 * D + d];
      out[((long)blockIdx.x * C + i) * 2 * D + d] = x;
    }
}
__global__ void scan(const float* wu, const __nv_bfloat16* q, const __nv_bfloat16* k, const float* g,
                     __nv_bfloat16* out, int T, int H) {
  __shared__ float S[D][D];
  const int h = blockIdx.x % H, b = blockIdx.x / H, x = threadIdx.x;
  for (int d = 0; d < D; ++d) S[d][x] = 0.f;
  for (int t = 0; t < T; ++t) {
    const float* w = wu + ((long)blockIdx.x * T + t) * 2 * D;
    long row = ((long)b * T + t) * H + h;
    float fresh = w[D + x], o = 0.f;
    for (int d = 0; d < D; ++d) fresh -= w[d] * S[d][x];
    for (int d = 0; d < D; ++d) {
      S[d][x] = S[d][x] * __expf(g[row * D + d]) + __bfloat162float(k[row * D + d]) * fresh;
      o += __bfloat162float(q[row * D + d]) * S[d][x];
    }
    out[row * D + x] = __float2bfloat16(o * rsqrtf((float)D));
  }
}
namespace own {
torch::Tensor solve_triangular(torch::Tensor a, torch::Tensor b, bool upper, bool left, bool unit) {
  auto out = torch::empty_like(b);
  substitute<<<a.size(0), 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>());
  return out;
}
torch::Tensor linalg_solve_triangular(torch::Tensor a, torch::Tensor b, bool upper, bool left, bool unit) {
  return own::solve_triangular(a, b, upper, left, unit);
}
}
// ABOVE
torch::Tensor go(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor g, torch::Tensor beta) {
  const int64_t B = q.size(0), T = q.size(1), H = q.size(2), N = B * H * (T / C);
  auto f32 = q.options().dtype(torch::kFloat32);
  auto sys = torch::empty({N, C, C}, f32), rhs = torch::empty({N, C, 2 * D}, f32);
  auto out = torch::empty_like(v);
  auto p = [](const torch::Tensor& t) { return reinterpret_cast<__nv_bfloat16*>(t.data_ptr()); };
  prepare<<<N, 128>>>(p(k), p(v), g.data_ptr<float>(), p(beta), sys.data_ptr<float>(), rhs.data_ptr<float>(), T, H);
  // BEFORE
  auto wu = SOLVE(sys, rhs, false, true, true).contiguous();
  scan<<<B * H, D>>>(wu.data_ptr<float>(), p(q), p(k), g.data_ptr<float>(), p(out), T, H);
  return out;
}
'''
ext = load_inline("e", "torch::Tensor go(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor g, "
                  "torch::Tensor beta);", SOURCE, functions=["go"])


class Model(nn.Module):
    def __init__(self, B, T, H, K, V, chunk_size):
        super().__init__()

    def forward(self, q, k, v, g, beta):
        return ext.go(q, k, v, g, beta)
"""
SOLVERS = {  # what stands before the function, in it before the call, and what is called
    "aten's name": ("", "", "at::linalg_solve_triangular"),
    "another namespace of torch": ("", "", "torch::linalg_solve_triangular"),
    "its module": ("", "", "torch::linalg::solve_triangular"),
    "an alias of a namespace": ("namespace a = at; namespace b = a;", "", "b::linalg_solve_triangular"),
    "a declaration": ("using at::linalg_solve_triangular;", "", "linalg_solve_triangular"),
    "a directive": ("", "using namespace torch::linalg;", "solve_triangular"),
    "a pointer": ("", "auto f = &at::linalg_solve_triangular;", "f"),
    "the operator": ("", "", "at::_ops::linalg_solve_triangular::call"),
}
OWN_SOLVERS = {
    "a function of a namespace": ("", "", "own::solve_triangular"),
    "a namespace that is called as torch's": ("namespace at2 = own;", "", "at2::linalg_solve_triangular"),
    "a declaration": ("using own::linalg_solve_triangular;", "", "linalg_solve_triangular"),
}
MOE = r"""import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
__global__ void swiglu(const __nv_bfloat16* gate, const __nv_bfloat16* up, __nv_bfloat16* out, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= n) return;
  float g = __bfloat162float(gate[i]);
  out[i] = __float2bfloat16(g / (1.f + __expf(-g)) * __bfloat162float(up[i]));
}
torch::Tensor go(torch::Tensor x, torch::Tensor wg, torch::Tensor wu, torch::Tensor offsets) {
  const int64_t E = wg.size(0), H = wg.size(1), I = wg.size(2);
  auto there = offsets.cpu();
  const int* at = there.data_ptr<int>();
  auto gate = torch::empty({x.size(0), I}, x.options()), up = torch::empty_like(gate), out = torch::empty_like(gate);
  auto handle = at::cuda::getCurrentCUDABlasHandle();
  const float one = 1.f, zero = 0.f;
  auto p = [](const torch::Tensor& t, int64_t n) { return static_cast<char*>(t.data_ptr()) + n * 2; };
  for (int64_t e = 0; e < E; ++e) {
    int64_t first = FIRST, rows = ROWS;
    if (rows == 0) continue;
    for (int both = 0; both < 2; ++both)
      cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, I, rows, H, &one, p(both ? wu : wg, e * H * I), CUDA_R_16BF, I,
                   p(x, first * H), CUDA_R_16BF, H, &zero, p(both ? up : gate, first * I), CUDA_R_16BF, I,
                   CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  }
  auto b = [](const torch::Tensor& t) { return (__nv_bfloat16*)t.data_ptr(); };
  swiglu<<<(gate.numel() + 255) / 256, 256>>>(b(gate), b(up), b(out), gate.numel());
  return out;
}
'''
ext = load_inline("e", "torch::Tensor go(torch::Tensor x, torch::Tensor wg, torch::Tensor wu, torch::Tensor offsets);",
                  SOURCE, functions=["go"])


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states, expert_offsets):
        return ext.go(hidden_states, self.W_gate, self.W_up, expert_offsets)
"""

OWN_PRODUCT = """
struct Job { const __nv_bfloat16 *x, *gate, *up; __nv_bfloat16* out; int rows, H, I; };
__global__ void expert(Job j) {
  int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
  if (r >= j.rows || c >= j.I) return;
  float g = 0.f, u = 0.f;
  for (int k = 0; k < j.H; ++k) {
    float a = __bfloat162float(j.x[(long)r * j.H + k]);
    g += a * __bfloat162float(j.gate[(long)k * j.I + c]);
    u += a * __bfloat162float(j.up[(long)k * j.I + c]);
  }
  j.out[(long)r * j.I + c] = __float2bfloat16(g / (1.f + __expf(-g)) * u);
}
torch::Tensor go("""
OWN_LAUNCH = """
    auto q = [](const torch::Tensor& t, int64_t n) { return (__nv_bfloat16*)t.data_ptr() + n; };
    Job job{q(x, first * H), q(wg, e * H * I), q(wu, e * H * I), q(out, first * I), (int)rows, (int)H, (int)I};
    expert<<<dim3(I / 16, x.size(0) / 16), dim3(16, 16)>>>(job);
  }
  return out;
}
"""


def _lint(text: str, problem: str, folder: Path) -> FileReport:
    path = folder / "solution.py"
    path.write_text(text, encoding="utf-8")
    return kbh_lint.lint([path], problem=problem).files[0]


def _solved(above: str, before: str, call: str, folder: Path) -> FileReport:
    text = KDA.replace("// ABOVE", above).replace("// BEFORE", before).replace("SOLVE(", f"{call}(")
    return _lint(text, "02_kda_cutlass", folder)


@pytest.mark.parametrize("how", SOLVERS)
def test_a_solve_of_torch_is_told_through(how: str, tmp_path: Path) -> None:
    report = _solved(*SOLVERS[how], tmp_path)
    assert "partial-torch-compute" in {f.leak_class for f in report.findings}, (report.verdict, report.unread)


@pytest.mark.parametrize("how", OWN_SOLVERS)
def test_a_solve_of_the_text_is_its_own_through(how: str, tmp_path: Path) -> None:
    report = _solved(*OWN_SOLVERS[how], tmp_path)
    assert report.verdict == "clean", ([f.message for f in report.findings], report.unread)


@pytest.mark.parametrize(
    ("first", "rows", "read"),
    [
        ("e * (x.size(0) / E)", "at[e + 1] - at[e]", True),
        ("at[e]", "x.size(0) / E", True),
        ("e * (x.size(0) / E)", "x.size(0) / E", False),
    ],
)
def test_a_library_call_depends_on_the_numbers_it_is_given(first: str, rows: str, read: bool, tmp_path: Path) -> None:
    text = MOE.replace("FIRST", first).replace("ROWS", rows)
    report = _lint(text, "06_sonic_moe_swiglu", tmp_path)
    found = {f.leak_class for f in report.findings}
    assert "library-gemm-wrapper" in found
    assert ("input-structure-hardcode" in found) is not read


@pytest.mark.parametrize(("first", "rows", "read"), [("at[e]", "at[e + 1] - at[e]", True), ("e * 8", "8", False)])
def test_a_kernel_depends_on_numbers_in_a_struct(first: str, rows: str, read: bool, tmp_path: Path) -> None:
    text = MOE.replace("FIRST", first).replace("ROWS", rows).replace("torch::Tensor go(", OWN_PRODUCT, 1)
    begin, end = text.index("    for (int both"), text.index("'''\next")
    report = _lint(text[:begin] + OWN_LAUNCH + text[end:], "06_sonic_moe_swiglu", tmp_path)
    assert report.verdict == ("clean" if read else "rubric_leak"), ([f.message for f in report.findings], report.unread)
