"""CUDA kernels of tests, analysed."""

from __future__ import annotations

import textwrap
from typing import Any

from kbh_lint.base import ir, values
from kbh_lint.base.values import Buffer
from kbh_lint.frontends import cuda
from kbh_lint.kernels.analyze import analyze
from kbh_lint.kernels.core.facts import KernelFacts

X8, W8 = Buffer("e4m3", 1, "e4m3"), Buffer("e4m3", 2, "e4m3")
X16, W16 = Buffer("bf16", 1, "bf16"), Buffer("bf16", 2, "bf16")
OUT = Buffer("bf16", 9, "bf16")


def run(source: str, kernel: str = "kernel", **args: Any) -> KernelFacts:
    """Facts about the `__global__` function named `kernel` in `source`."""
    text = textwrap.dedent(source)
    found = cuda.module_env(cuda.lower(text, cuda.lines_origin(text, "kernel.cu"))).vars[kernel]
    assert isinstance(found, values.Overloads)
    return analyze(found.funcs[0], args)


def casts(facts: KernelFacts) -> set[tuple[str, str]]:
    """The conversions in a kernel."""
    return {(c.source, c.target) for c in facts.casts}


def line(loc: ir.Loc) -> int:
    """The line of a place."""
    return int(loc[0].span(loc).line)


MMA = """
__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {{
  asm volatile(
      "mma.sync.aligned.{shape}.row.col.f32.{type}.{type}.f32 "
      "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};\\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}}
"""
MMA8 = MMA.format(shape="m16n8k32", type="e4m3")
MMA16 = MMA.format(shape="m16n8k16", type="bf16")
