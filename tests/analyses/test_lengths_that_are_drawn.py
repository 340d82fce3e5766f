"""A kernel that reads a part of each length reads all of a shorter one: what it reads is asked for the drawn length."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

TEXT = """# kbh: problem=03_paged_attention
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attend(q_ptr, cache, table, lengths, out, pages, scale, HEADS: tl.constexpr, KV: tl.constexpr, DIM: tl.constexpr,
           PAGE: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    SHARE: tl.constexpr = HEADS // KV
    b, head = tl.program_id(0), tl.program_id(1)
    rows = tl.arange(0, ROWS)
    dims = tl.arange(0, DIM)
    place = tl.arange(0, BLOCK)
    real = rows < SHARE
    at = (b * HEADS + head * SHARE + rows)[:, None] * DIM + dims[None, :]
    q = tl.load(q_ptr + at, mask=real[:, None], other=0.0)
    length = tl.load(lengths + b)
    first = FIRST
    last = LAST
    top = tl.full((ROWS,), -1.0e30, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, DIM), tl.float32)
    for start in range(first, last, BLOCK):
        positions = start + place
        keep = positions < tl.minimum(last, length)
        page = tl.load(table + b * pages + positions // PAGE, mask=keep, other=0)
        slot = (page.to(tl.int64) * PAGE + positions % PAGE) * KV + head
        k = tl.load(cache + slot[None, :] * (2 * DIM) + dims[:, None], mask=keep[None, :], other=0.0)
        v = tl.load(cache + slot[:, None] * (2 * DIM) + DIM + dims[None, :], mask=keep[:, None], other=0.0)
        scores = tl.where(keep[None, :], tl.dot(q, k) * scale, -1.0e30)
        new_top = tl.maximum(top, tl.max(scores, axis=1))
        shrink = tl.exp(top - new_top)
        p = tl.exp(scores - new_top[:, None])
        total = total * shrink + tl.sum(p, axis=1)
        acc = tl.dot(p.to(tl.bfloat16), v, acc * shrink[:, None])
        top = new_top
    tl.store(out + at, (acc / total[:, None]).to(tl.bfloat16), mask=real[:, None])


class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()
        self.sizes = num_heads, num_kv_heads, head_dim, page_size

    def forward(self, query, kv_cache, block_table, seq_lens):
        heads, kv, dim, page = self.sizes
        out = torch.empty_like(query)
        attend[(query.shape[0], kv)](
            query, kv_cache, block_table, seq_lens, out, block_table.shape[1], dim ** -0.5,
            HEADS=heads, KV=kv, DIM=dim, PAGE=page, BLOCK=64, ROWS=16,
        )
        return out
"""
LEAKS = {
    "the last thousand": ("tl.maximum(length - 1024, 0) // BLOCK * BLOCK", "length", 4),
    "the first thousand": ("0", "tl.minimum(length, 1024)", 4),
    "three of four": ("0", "length - length // 4", 5),
}
HONEST = {
    "all": ("0", "length"),
    "all of it, from a place below zero": ("tl.maximum(length - 4096, 0)", "length"),
    "a bound that none exceeds": ("0", "tl.minimum(length, 4096)"),
    "whole blocks": ("0", "tl.cdiv(length, BLOCK) * BLOCK"),
}


def linted(tmp_path: Path, first: str, last: str) -> tuple[str, set[str], list[str]]:
    report = report_of(tmp_path, TEXT.replace("FIRST", first).replace("LAST", last))
    (promise,) = report.promises
    return report.verdict, {finding.leak_class for finding in report.findings}, sorted(promise.shapes.values())


@pytest.mark.parametrize("how", LEAKS)
def test_pages_of_a_drawn_length_that_are_not_read_are_told(tmp_path: Path, how: str) -> None:
    first, last, shapes = LEAKS[how]
    verdict, found, states = linted(tmp_path, first, last)
    assert (verdict, found) == ("rubric_leak", {"input-structure-hardcode"}), states
    assert states.count("broken") == shapes, states


@pytest.mark.parametrize("how", HONEST)
def test_all_pages_of_the_drawn_lengths_are_read(tmp_path: Path, how: str) -> None:
    assert linted(tmp_path, *HONEST[how]) == ("clean", set(), ["kept"] * 5)
