"""CUDA kernels that sum exponentials with care, and what the evaluation says of them."""

from __future__ import annotations

from typing import Any

from kbh_lint.base import ir, values
from kbh_lint.base.values import Buffer
from kbh_lint.frontends import cuda
from kbh_lint.kernels.numeric.compensation import CompensationFacts, evaluate

HEAD = """
#include <cuda_runtime.h>
#include <float.h>
"""
# A thread's share of a row, a block sum, and the normalised row: `LOOP` sums e, `TOTAL` is what the thread hands on.
KERNEL = """
__global__ void kernel(const float* __restrict__ x, float* __restrict__ y, int n) {
    __shared__ float parts[32];
    float m = -INFINITY;
    for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, x[i]);
    float s = 0.0f, c = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float e = __expf(x[i] - m);
        LOOP
    }
    float total = TOTAL;
    for (int step = 16; step > 0; step >>= 1) total += __shfl_xor_sync(0xffffffff, total, step);
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = total;
    __syncthreads();
    total = 0.f;
    for (int w = 0; w < 8; ++w) total += parts[w];
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = __expf(x[i] - m) / total;
}
"""


def kernel_of(text: str, name: str = "kernel") -> values.Func:
    """A kernel of a text, with the scope that its file gives it."""
    text = HEAD + text
    module = cuda.lower(text, cuda.lines_origin(text, "kernel.cu"))
    assert module.unread == []
    env = cuda.module_env(module)
    node = next(s for s in module.body if isinstance(s, ir.FuncDef) and s.name == name)
    assert node.kind == "global"
    return values.Func(node, env)


def facts(text: str, *, block: Any = 256, **args: Any) -> CompensationFacts:
    """What the evaluation says of a kernel of one row of 32768 numbers."""
    given = {"x": Buffer("f32", 0, "f32"), "y": Buffer("f32", 1, "f32"), "n": 32768, **args}
    return evaluate(kernel_of(text), given, block=(block, 1, 1))
