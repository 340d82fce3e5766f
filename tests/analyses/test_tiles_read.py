"""TileLang kernels that read a part of an operand: half of the rounds, of the blocks, one row of tiles."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

HEAD = """
import tilelang
import tilelang.language as T
import torch
import torch.nn as nn
"""
MADE = """

@tilelang.jit(out_idx=[-1])
def scaled_gemm(M, N, K, bm, bn, bk, dtype="float8_e4m3"):
    @T.prim_func
    def main(
        a: T.Tensor((M, K), dtype), b: T.Tensor((N, K), dtype), s: T.Tensor[(N,), "float32"],
        c: T.Tensor[(M, N), "bfloat16"],
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            sa, sb = T.alloc_shared((bm, bk), dtype), T.alloc_shared((bn, bk), dtype)
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=3):
                T.copy(a[by * bm, k * bk], sa)
                T.copy(b[bx * bn, k * bk], sb)
                T.gemm(sa, sb, acc, transpose_B=True)
            for i, j in T.Parallel(bm, bn):
                c[by * bm + i, bx * bn + j] = acc[i, j] * s[bx * bn + j]

    return main
"""
EAGER = """

@tilelang.jit
def eager_gemm(a, b, s, bm, bn, bk, dtype=T.float8_e4m3fn):
    M, N, K = T.const("M, N, K")
    a: T.Tensor((M, K), dtype)
    b: T.Tensor((N, K), dtype)
    s: T.Tensor((N,), T.float32)
    c = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
        sa, sb = T.alloc_shared((bm, bk), dtype), T.alloc_shared((bn, bk), dtype)
        acc = T.alloc_fragment((bm, bn), "float32")
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, bk), num_stages=3):
            T.copy(a[by * bm, k * bk], sa)
            T.copy(b[bx * bn, k * bk], sb)
            T.gemm(sa, sb, acc, transpose_B=True)
        for i, j in T.Parallel(bm, bn):
            c[by * bm + i, bx * bn + j] = acc[i, j] * s[bx * bn + j]
    return c
"""
MODEL = """

class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        (m, k), n = x.shape, self.weight.shape[0]
        return CALL
"""
CALLS = {
    "made": "scaled_gemm(m, n, k, 32, 128, 64)(x, self.weight, self.weight_scale)",
    "eager": "eager_gemm(x, self.weight, self.weight_scale, 32, 128, 64)",
}
ROUNDS, A, B = "T.ceildiv(K, bk), num", "T.copy(a[by * bm, k * bk], sa)", "T.copy(b[bx * bn, k * bk], sb)"
PART = {
    "half of the rounds": {ROUNDS: "T.ceildiv(K, 2 * bk), num"},
    "rounds of a number": {ROUNDS: "8, num"},
    "the first tiles only": {A: "T.copy(a[by * bm, k % 4 * bk], sa)"},
    "one row of tiles": {B: "T.copy(b[0, k * bk], sb)"},
    "a slice of the depth": {ROUNDS: "1, num", A: "T.copy(a[by * bm : (by + 1) * bm, 0:bk], sa)"},
    "half of the elements": {
        A: "for i, j in T.Parallel(bm, bk):\n                    sa[i, j] = a[by * bm + i, k * bk // 2 + j // 2]"
    },
}
WHOLE = {
    "as it is": {},
    "backwards": {A: "T.copy(a[by * bm, (T.ceildiv(K, bk) - 1 - k) * bk], sa)"},
    "in falling rounds": {
        "for k in T.Pipelined(T.ceildiv(K, bk), num_stages=3)": "for k in T.serial(T.ceildiv(K, bk) - 1, -1, -1)"
    },
    "by slices": {A: "T.copy(a[by * bm : (by + 1) * bm, k * bk : (k + 1) * bk], sa)"},
    "by elements": {A: "for i, j in T.Parallel(bm, bk):\n                    sa[i, j] = a[by * bm + i, k * bk + j]"},
    "a place that is kept": {A: "start = k * bk\n                T.copy(a[by * bm, start], sa)"},
    "a place that moves": {
        "T.clear(acc)": "T.clear(acc)\n            at = T.alloc_var('int32')\n            at = 0",
        A: "T.copy(a[by * bm, at], sa)\n                at = at + bk",
    },
    "halves in turn": {
        ROUNDS: "T.ceildiv(K, 2 * bk), num",
        A: "T.copy(a[by * bm, k * bk], sa)\n                T.copy(a[by * bm, K // 2 + k * bk], sa)",
        B: "T.copy(b[bx * bn, k * bk], sb)\n                T.copy(b[bx * bn, K // 2 + k * bk], sb)",
    },
    "by something that takes the whole tensor": {A: "T.call_extern('handle', 'stage', a, sa)"},
}


def found(tmp_path: Path, call: str, edits: dict[str, str]) -> set[str]:
    text = HEAD + (EAGER if call == "eager" else MADE) + MODEL.replace("CALL", CALLS[call])
    for old, new in edits.items():
        assert old in text, old
        text = text.replace(old, new)
        if call == "eager":  # its kernel stands one step further to the left
            text = text.replace(new, new.replace("\n    ", "\n"))
    report = report_of(tmp_path, text, "01_fp8_gemm")
    return {finding.leak_class for finding in report.findings if finding.verdict == "rubric_leak"}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("how", PART)
def test_a_part_of_an_operand_is_not_all_of_it(tmp_path: Path, how: str, call: str) -> None:
    assert "input-structure-hardcode" in found(tmp_path, call, PART[how])


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("how", WHOLE)
def test_what_may_be_all_of_it_is_not_said_to_be_less(tmp_path: Path, how: str, call: str) -> None:
    assert found(tmp_path, call, WHOLE[how]) == set()
