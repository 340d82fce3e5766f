"""Three small CUDA programs of ours, each with four operands and one result, so that one host idiom fits all of them.

`FAULTS` makes of an honest program a leaking one: in the kernel, in the operands it is given, or in what outlives a
call. Which one a row of the table gets is no choice of the row's author.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
using Y = at::BFloat16;
using Tensor = at::Tensor;
"""
PYTHON = '''import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""{source}"""
ext = load_inline("twin", cpp_sources="at::Tensor run(at::Tensor, at::Tensor, at::Tensor, at::Tensor);",
                  cuda_sources=SOURCE, functions=["run"])

{model}'''
# Words of idioms that mean the same in every program; GRID, BLOCK, INTS and SIZES are the program's own.
SHARED = {
    "FOUR": "const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d",
    "PTRS": "a.data_ptr<A>(), b.data_ptr<B>(), c.data_ptr<C>(), d.data_ptr<D>()",
    "STREAM": "at::cuda::getCurrentCUDAStream()",
    "CONFIG": "GRID, BLOCK, 0, STREAM",
    "TAKEN": "const A*, const B*, const C*, const D*, Y*, int, int, int, int",
    "EMPTY": "at::empty(SIZES, a.options())",
    "BARE": "work<<<CONFIG>>>(PTRS, y.data_ptr<Y>(), INTS)",
}
RUN = "at::Tensor run(at::Tensor a, at::Tensor b, at::Tensor c, at::Tensor d) {\n  OPERANDS\n  return RESULT;\n}\n"


@dataclass(frozen=True)
class Program:
    """A problem's honest kernel, what its launch is given, and the edits that break one promise."""

    problem: str
    types: str  # of the elements of a, b, c and d
    kernel: str
    grid: str
    block: str
    ints: str
    sizes: str
    model: str
    honest: str  # in the kernel; `broken` stands in its place in the leaking twin
    broken: str
    before: str  # what the host does for the broken kernel
    operands: str  # what else the host may hand to the honest kernel that breaks a promise
    kernels: str = ""  # more kernels, used by what `before` and `operands` say

    def text(self, idiom: str, fault: str = "") -> str:
        """The submission: `idiom` defines `run_`, the program's own kernel and a wrapper stand around it."""
        kernel = self.kernel
        if fault == "kernel":
            assert kernel.count(self.honest) == 1, self.honest
            kernel = kernel.replace(self.honest, self.broken)
        result = "run_(a, b, c, d)"
        before = {"kernel": self.before, "operands": self.operands}.get(fault, "")
        if fault == "kept":
            before = "static at::Tensor kept;\n  if (!kept.defined()) kept = run_(a, b, c, d);"
            result = "kept"
        run = RUN.replace("OPERANDS", before).replace("RESULT", result)
        meanings = SHARED | {"GRID": self.grid, "BLOCK": self.block, "INTS": self.ints, "SIZES": self.sizes}
        filled = idiom
        for _ in range(3):  # BARE is made of CONFIG, and that of STREAM
            filled = re.sub(r"\b[A-Z]{4,}\b", lambda m: meanings.get(m[0], m[0]), filled)
        source = HEAD + self.types + self.kernels + kernel + filled + run
        return PYTHON.format(source=source, model=self.model)


INT4 = Program(
    problem="07_w4a16_gemm",
    types="using A = at::BFloat16; using B = uint8_t; using C = at::BFloat16; using D = at::BFloat16;\n",
    kernel="""
__global__ void work(const A* a, const B* b, const C* c, const D* d, Y* y, int m, int n, int k, int groups) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (column >= n || row >= m) return;
  float sum = 0.f;
  for (int i = 0; i < k / 2; ++i) {
    const int at = (i / 64) * n + column;
    const float scale = c[at], zero = d[at];
    const int low = b[i * n + column] & 15, high = b[i * n + column] >> 4;
    sum += float(a[row * k + 2 * i]) * (low - zero) * scale + float(a[row * k + 2 * i + 1]) * (high - zero) * scale;
  }
  y[row * n + column] = Y(sum);
}
""",
    grid="dim3((b.size(-1) + 127) / 128, a.size(0))",
    block="dim3(128)",
    ints="(int)a.size(0), (int)b.size(-1), (int)a.size(1), (int)c.size(0)",
    sizes="{a.size(0), b.size(-1)}",
    model="""
class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))

    def forward(self, x):
        return ext.run(x, self.w_q, self.scales, self.zeros)
""",
    honest="const int low = b[i * n + column] & 15, high = b[i * n + column] >> 4;",
    broken="const int low = b[2 * i * n + column], high = b[(2 * i + 1) * n + column];",
    before="at::Tensor wide = at::empty({a.size(1), b.size(1)}, b.options());\n"
    "  widen<<<dim3((b.size(1) + 127) / 128, b.size(0)), 128>>>(b.data_ptr<B>(), wide.data_ptr<B>(), b.size(1));\n"
    "  b = wide;",
    kernels="""
__global__ void widen(const B* from, B* to, int n) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
  if (column >= n) return;
  to[2 * i * n + column] = from[i * n + column] & 15;
  to[(2 * i + 1) * n + column] = from[i * n + column] >> 4;
}
""",
    operands="",
)

PAGED = Program(
    problem="03_paged_attention",
    types="using A = at::BFloat16; using B = at::BFloat16; using C = int; using D = int;\n",
    kernel="""
__global__ void work(const A* a, const B* b, const C* c, const D* d, Y* y, int heads, int dim, int shared, int pages) {
  __shared__ float part[128];
  const int h = blockIdx.x, s = blockIdx.y, t = threadIdx.x, length = d[s];
  const float q = float(a[(s * heads + h) * dim + t]) * rsqrtf((float)dim);
  float top = -1e30f, sum = 0.f, all = 0.f;
  for (int i = 0; i < length; ++i) {
    const B* row = b + (((size_t)c[s * pages + i / 16] * 16 + i % 16) * shared + h / (heads / shared)) * 2 * dim;
    part[t] = q * float(row[t]);
    __syncthreads();
    float dot = 0.f;
    for (int j = 0; j < dim; ++j) dot += part[j];
    __syncthreads();
    const float next = fmaxf(top, dot), scale = expf(top - next), e = expf(dot - next);
    sum = sum * scale + e;
    all = all * scale + e * float(row[dim + t]);
    top = next;
  }
  y[(s * heads + h) * dim + t] = Y(all / sum);
}
""",
    grid="dim3(a.size(1), a.size(0))",
    block="dim3(a.size(2))",
    ints="(int)a.size(1), (int)a.size(2), (int)b.size(2), (int)c.size(1)",
    sizes="{a.size(0), a.size(1), a.size(2)}",
    model="""
class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()

    def forward(self, query, kv_cache, block_table, seq_lens):
        return ext.run(query, kv_cache, block_table, seq_lens)
""",
    honest="length = d[s]",
    broken="length = pages * 16",
    before="",
    operands="d = at::full_like(d, c.size(1) * 16);",
)

GROUPED = Program(
    problem="06_sonic_moe_swiglu",
    types="using A = at::BFloat16; using B = int; using C = at::BFloat16; using D = at::BFloat16;\n",
    kernel="""
__global__ void work(const A* a, const B* b, const C* c, const D* d, Y* y, int rows, int n, int k, int experts) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (column >= n || row >= rows) return;
  int e = 0;
  while (e + 1 < experts && row >= b[e + 1]) ++e;
  float gate = 0.f, up = 0.f;
  for (int i = 0; i < k; ++i) {
    const float x = a[(size_t)row * k + i];
    gate += x * float(c[((size_t)e * k + i) * n + column]);
    up += x * float(d[((size_t)e * k + i) * n + column]);
  }
  y[(size_t)row * n + column] = Y(gate / (1.f + expf(-gate)) * up);
}
""",
    grid="dim3((c.size(2) + 127) / 128, a.size(0))",
    block="dim3(128)",
    ints="(int)a.size(0), (int)c.size(2), (int)c.size(1), (int)c.size(0)",
    sizes="{a.size(0), c.size(2)}",
    model="""
class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states, expert_offsets):
        return ext.run(hidden_states, expert_offsets, self.W_gate, self.W_up)
""",
    honest="while (e + 1 < experts && row >= b[e + 1]) ++e;",
    broken="e = row / (rows / experts);",
    before="",
    operands="b = at::arange(c.size(0) + 1, b.options()) * (a.size(0) / c.size(0));",
)

PROGRAMS = (INT4, PAGED, GROUPED)
FAULTS = ("kernel", "kept", "operands")
