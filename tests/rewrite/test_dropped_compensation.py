"""A rounding error is found in whatever form a kernel writes it, and nothing else is taken for one."""

from __future__ import annotations

from random import Random

import pytest

from kbh_lint.rewrite.leaks.in_kernels import drop_compensation
from kbh_lint.rewrite.program import NotApplicable, Program

TRITON = """
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    s = tl.zeros((B,), tl.float32)
    c = tl.zeros((B,), tl.float32)
    for k in range(0, n, B):
        v = tl.load(x + k + tl.arange(0, B))
        t = s + v
        LINE
        s = t
    tl.store(y + tl.arange(0, B), s + c)
"""
CUDA = '''
SOURCE = r"""
__global__ void kernel(const float* x, float* y, int n) {
  float s = 0.f, c = 0.f;
  for (int k = threadIdx.x; k < n; k += 32) {
    const float v = x[k], t = s + v;
    LINE
    s = t;
  }
  y[threadIdx.x] = s + c;
}
"""
'''
FOUND = {
    "Triton, Neumaier": (TRITON, "c = c + tl.where(tl.abs(s) >= tl.abs(v), (s - t) + v, (v - t) + s)"),
    "Triton, added to": (TRITON, "c += tl.where(tl.abs(s) >= tl.abs(v), (s - t) + v, (v - t) + s)"),
    "Triton, one order": (TRITON, "c += (s - t) + v"),
    "Triton, Kahan": (TRITON, "c = (t - s) - v"),
    "CUDA, Neumaier": (CUDA, "c += fabsf(s) >= fabsf(v) ? (s - t) + v : (v - t) + s;"),
    "CUDA, one order": (CUDA, "c += (s - t) + v;"),
    "CUDA, Kahan": (CUDA, "c = (t - s) - v;"),
}
OTHERS = {
    "Triton": (TRITON, "c = (s - t) + s"),
    "Triton, a place": (TRITON, "c = c + ((k - n) + B)"),
    "CUDA": (CUDA, "c += fabsf(s) >= fabsf(v) ? (s - t) + s : v;"),
    "CUDA, a place": (CUDA, "c += x[(k - n) + threadIdx.x];"),
}


@pytest.mark.parametrize("form", FOUND)
def test_a_rounding_error_is_multiplied_by_zero(form: str) -> None:
    text, line = FOUND[form]
    program = Program(text.replace("LINE", line))
    made = drop_compensation(program, Random(1)).main
    changed = [new for old, new in zip(program.main.splitlines(), made.splitlines(), strict=True) if old != new]
    assert [line.lstrip()[0] for line in changed if "SOURCE" not in line] == ["c"] and "0.0" in changed[-1], made


@pytest.mark.parametrize("form", OTHERS)
def test_what_is_none_stays(form: str) -> None:
    text, line = OTHERS[form]
    with pytest.raises(NotApplicable):
        drop_compensation(Program(text.replace("LINE", line)), Random(1))
