"""Triton kernels that sum exponentials with care, and what the evaluation says of them."""

from __future__ import annotations

import textwrap
from typing import Any

from kbh_lint.base import ir, values
from kbh_lint.base.values import Buffer
from kbh_lint.frontends import python
from kbh_lint.kernels.numeric.compensation import CompensationFacts, evaluate

X, Y, Z = Buffer("f32", 0, "f32"), Buffer("f32", 1, "f32"), Buffer("f32", 2, "f32")
HEAD = "import triton\nimport triton.language as tl\n"
# One row a program, online or not: `LOOP` is the body of the loop that sums, after `e` is known.
ROW = """
def kernel(x, y, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    m = -float("inf")
    for start in range(0, n, BLOCK):
        m = tl.maximum(m, tl.max(tl.load(x + start + offs, mask=start + offs < n, other=-float("inf")), 0))
    s = 0.0
    c = 0.0
    for start in range(0, n, BLOCK):
        e = tl.exp(tl.load(x + start + offs, mask=start + offs < n, other=-float("inf")) - m)
        v = tl.sum(e, 0)
{LOOP}
    total = {TOTAL}
    for start in range(0, n, BLOCK):
        e = tl.exp(tl.load(x + start + offs, mask=start + offs < n, other=0.0) - m)
        tl.store(y + start + offs, e / total, mask=start + offs < n)
"""


def scope(text: str) -> values.Env:
    """The functions of a text, with `triton` and `tl` as the host interpreter binds them."""
    env = values.Env({"triton": values.Sym("triton"), "tl": values.Sym("triton.language")})
    for stmt in python.lower(HEAD + textwrap.dedent(text)).body:
        if isinstance(stmt, ir.FuncDef):
            env.vars[stmt.name] = values.JitFunction(values.Func(stmt, env))
    return env


def facts(text: str, name: str = "kernel", **args: Any) -> CompensationFacts:
    """What the evaluation says of a kernel of one row."""
    kernel = scope(text).vars["kernel"].func
    return evaluate(kernel, {"x": X, "y": Y, "n": 8192, "BLOCK": 1024, **args})


def row(loop: str, total: str = "s", text: str = ROW, **args: Any) -> CompensationFacts:
    """The same of ROW with a loop body and a total."""
    body = textwrap.indent(textwrap.dedent(loop).strip("\n"), " " * 8)
    return facts(text.replace("{LOOP}", body).replace("{TOTAL}", total), **args)


MERGE = """
def kernel(x, y, n, BLOCK: tl.constexpr):
    s = 0.0
    c = 0.0
    for i in range(n):
        v = tl.load(x + i) - c
        t = s + v
        c = (t - s) - v
        s = t
    tl.store(y, s)
"""
STEP = "            w = v - c\n            t = s + w\n            c = (t - s) - w\n            s = t\n"
PERSISTENT = """
def kernel(x, y, n, BLOCK: tl.constexpr):
    for row in range(tl.program_id(0), 64, tl.num_programs(0)):
        s = 0.0
        c = 0.0
        for k in range(0, n, BLOCK):
            v = tl.sum(tl.exp(tl.load(x + row * n + k + tl.arange(0, BLOCK))))
{STEP}        tl.store(y + row, s)
"""
