"""Triton kernels for tests, and what the analysis says of them."""

from __future__ import annotations

import textwrap
from typing import Any

from origins_support import flags as flags
from origins_support import params as params

from kbh_lint.base import ir, values
from kbh_lint.base.values import UNKNOWN, Buffer, Scalar, Sym
from kbh_lint.frontends import python
from kbh_lint.kernels.analyze import analyze
from kbh_lint.kernels.core.facts import KernelFacts

X8, W8 = Buffer("e4m3", 1, "e4m3"), Buffer("e4m3", 2, "e4m3")
X16, W16 = Buffer("bf16", 1, "bf16"), Buffer("bf16", 2, "bf16")
OUT = Buffer("bf16", 9, "bf16")


def run(source: str, **args: Any) -> KernelFacts:
    """Facts about the last function of `source`; the others are helpers it may call."""
    module = python.lower(textwrap.dedent(source), "kernel.py")
    names = {"tl": "triton.language", "triton": "triton", "libdevice": "triton.language.extra.cuda.libdevice"}
    env = values.Env({name: Sym(path) for name, path in names.items()})
    funcs = [s for s in module.body if isinstance(s, ir.FuncDef)]
    for node in funcs:
        env.vars[node.name] = values.JitFunction(values.Func(node, env))
    return analyze(values.Func(funcs[-1], env), args)


GEMM = """
def kernel(x, w, out, scale, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(x + rm[:, None] * K + (k + rk)[None, :])
        b = tl.load(w + (k + rk)[:, None] * N + rn[None, :])
        {body}
    s = tl.load(scale + rn)
    tl.store(out + rm[:, None] * N + rn[None, :], (acc * s[None, :]).to(tl.bfloat16))
"""
SIZES: dict[str, Any] = {"N": Scalar(UNKNOWN), "K": Scalar(4096), "BM": 64, "BN": 128, "BK": 32}
SCALE = Buffer("f32", 3, "f32")
