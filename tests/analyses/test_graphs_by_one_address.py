"""Captured graphs whose key names one of the inputs, where one kernel makes two results of inputs and weights."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

TEXT = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rotary(q, k, pt, ph, pw, cos, sin, oq, ok, T, S0, S1, HQ: tl.constexpr, HK: tl.constexpr, D: tl.constexpr):
    b, t, h = tl.program_id(1), tl.program_id(0), tl.program_id(2)
    d = tl.arange(0, D)
    half = d % (D // 2)
    at = tl.where(half < S0, tl.load(pt + b * T + t), tl.where(half < S0 + S1, tl.load(ph + b * T + t), tl.load(pw + b * T + t)))
    other = tl.where(d < D // 2, d + D // 2, d - D // 2)
    sign = tl.where(d < D // 2, -1.0, 1.0)
    if h < HQ:
        row, other_row = q + ((b * T + t) * HQ + h) * D + d, q + ((b * T + t) * HQ + h) * D + other
        out = oq + ((b * HQ + h) * T + t) * D + d
    else:
        row, other_row = k + ((b * T + t) * HK + h - HQ) * D + d, k + ((b * T + t) * HK + h - HQ) * D + other
        out = ok + ((b * HK + h - HQ) * T + t) * D + d
    c, s = tl.load(cos + at * D + d).to(tl.float32), tl.load(sin + at * D + d).to(tl.float32)
    tl.store(out, (tl.load(row).to(tl.float32) * c + sign * tl.load(other_row).to(tl.float32) * s).to(tl.bfloat16))


class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.section = mrope_section
        self.register_buffer("cos_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("sin_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.graphs = {}

    def captured(self, *given):
        q, k = given[:2]
        B, T, HQ, D = q.shape
        HK = k.shape[2]
        outs = q.new_empty(B, HQ, T, D), k.new_empty(B, HK, T, D)

        def go():
            rotary[(T, B, HQ + HK)](*given, self.cos_cache, self.sin_cache, *outs, T, self.section[0], self.section[1],
                                    HQ=HQ, HK=HK, D=D)

        go()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            go()
        return graph, outs

    def forward(self, q, k, pos_t, pos_h, pos_w):
        given = (q, k, pos_t, pos_h, pos_w)
        key = KEY
        if key not in self.graphs:
            self.graphs[key] = self.captured(*given)
        graph, outs = self.graphs[key]
        graph.replay()
        return outs
"""
KEYS = {
    "q.data_ptr(), q.shape": True,
    "(k.data_ptr(), pos_t.data_ptr())": True,
    "tuple(t.data_ptr() for t in (q, k, pos_t, pos_h))": True,
    "tuple(t.data_ptr() for t in given)": False,
    "tuple((t.data_ptr(), tuple(t.shape)) for t in given)": False,
}


@pytest.mark.parametrize("key", KEYS)
def test_a_key_names_each_input_that_the_graph_reads(tmp_path: Path, key: str) -> None:
    report = report_of(tmp_path, TEXT.replace("KEY", key), "09_fmha_preattn_mrope")
    assert ("KBH205" in {finding.rule for finding in report.findings}) is KEYS[key], report.findings
    assert KEYS[key] or report.verdict == "clean"
