"""Loops that step over a part of an input that no other program reads, and loops whose programs share the work."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

PAGED = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def beside(where, s):
    return tl.load(where) + s


@triton.jit
def attend(q, kv, table, lens, part, sums, tops, pages, HQ, HKV, scale,
           D: tl.constexpr, PAGE: tl.constexpr, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    b, h, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    dim = tl.arange(0, D)
    lane = tl.arange(0, BLOCK)
    query = tl.load(q + (b * HQ + h) * D + dim).to(tl.float32) * scale
    length = tl.load(lens + b)
    share = tl.cdiv(tl.cdiv(length, SPLITS), BLOCK) * BLOCK
    top, norm = float("-inf"), 0.0
    out = tl.zeros((D,), dtype=tl.float32)
    LOOP
    at = (b * HQ + h) * SPLITS + s
    tl.store(part + at * D + dim, out)
    tl.store(sums + at, norm)
    tl.store(tops + at, top)


@triton.jit
def merge(part, sums, tops, o, D: tl.constexpr, SPLITS: tl.constexpr):
    row, s, dim = tl.program_id(0), tl.arange(0, SPLITS), tl.arange(0, D)
    top = tl.load(tops + row * SPLITS + s)
    weight = tl.exp(top - tl.max(top, axis=0))
    norm = tl.sum(weight * tl.load(sums + row * SPLITS + s), axis=0)
    mixed = tl.load(part + (row * SPLITS + s)[:, None] * D + dim[None, :]) * weight[:, None]
    tl.store(o + row * D + dim, (tl.sum(mixed, axis=0) / norm).to(tl.bfloat16))


class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()
        self.page_size = page_size

    def forward(self, query, kv_cache, block_table, seq_lens):
        batch, heads, dim = query.shape
        part = torch.empty(batch, heads, 4, dim, device=query.device)
        sums = torch.empty(batch, heads, 4, device=query.device)
        tops, o = torch.empty_like(sums), torch.empty_like(query)
        kv_heads = kv_cache.shape[2]
        args = (query, kv_cache, block_table, seq_lens, part, sums, tops, block_table.shape[1], heads, kv_heads)
        attend[(batch, heads, 4)](*args, dim**-0.5, D=dim, PAGE=self.page_size, SPLITS=4, BLOCK=64)
        merge[(batch * heads,)](part, sums, tops, o, D=dim, SPLITS=4)
        return o
"""
ROUND = """        page = tl.load(table + b * pages + n // PAGE, mask=n < last, other=0)
        at = ((page * PAGE + n % PAGE) * HKV + h // (HQ // HKV)) * 2 * D
        keep = n < last
        key = tl.load(kv + at[:, None] + dim[None, :], mask=keep[:, None], other=0.0).to(tl.float32)
        score = tl.where(keep, tl.sum(key * query[None, :], axis=1), float("-inf"))
        higher = tl.maximum(top, tl.max(score, axis=0))
        weight = tl.exp(score - higher)
        value = tl.load(kv + at[:, None] + D + dim[None, :], mask=keep[:, None], other=0.0).to(tl.float32)
        shrink = tl.exp(top - higher)
        norm = norm * shrink + tl.sum(weight, axis=0)
        out = out * shrink + tl.sum(weight[:, None] * value, axis=0)
        top = higher
"""
SHARED = "first = s * share\n    last = tl.minimum(first + share, length)\n    "
TURNS = "first = s * BLOCK\n    last = length\n    "
LEFT_OUT = {
    "every second block": f"{SHARED}for i in range(first, last, 2 * BLOCK):\n        n = i + lane\n{ROUND}",
    "every second block of long sequences": (
        f"{SHARED}step = tl.where(length > 1280, 2 * BLOCK, BLOCK)\n"
        f"    for i in tl.range(first, last, step):\n        n = i + lane\n{ROUND}"
    ),
    "every third block by its number": (
        f"{SHARED}for i in range(first // BLOCK, tl.cdiv(last, BLOCK), 3):\n        n = i * BLOCK + lane\n{ROUND}"
    ),
    "turns of more programs than there are": (
        f"{TURNS}for i in range(first, last, 2 * SPLITS * BLOCK):\n        n = i + lane\n{ROUND}"
    ),
}
JUMP = (
    "few = tl.minimum(length, FEW)\n    share = tl.cdiv(tl.cdiv(few, SPLITS), BLOCK) * BLOCK\n"
    "    first = s * share\n    last = tl.minimum(first + share, few)\n    for i in range(first, last, BLOCK):\n"
    "        at = tl.where(i < BLOCK, i, i + tl.maximum(length - few, 0))\n        n = at + lane\n"
)  # the first block, and what ends a sequence
ENDS = ROUND.replace("n < last", "n < length")
LEFT_OUT |= {
    "what lies between the first block and the last few": JUMP.replace("FEW", "1024") + ENDS,
    "the same, and a function beside": JUMP.replace("FEW", "1024") + ENDS + "    beside(part, s)\n",
}
READ = {
    "the first block and the last few, which are all": JUMP.replace("FEW", "4096") + ENDS,
    "what a function of its own may read too": JUMP.replace("FEW", "1024") + ENDS + "    beside(table, s)\n",
    "every block": f"{SHARED}for i in range(first, last, BLOCK):\n        n = i + lane\n{ROUND}",
    "two blocks a round": (
        f"{SHARED}for i in range(first, last, 2 * BLOCK):\n"
        f"        n = i + lane\n{ROUND}        n = i + BLOCK + lane\n{ROUND}"
    ),
    "programs in turns": f"{TURNS}for i in range(first, last, SPLITS * BLOCK):\n        n = i + lane\n{ROUND}",
    "every block by its number": (
        f"{SHARED}for i in range(first // BLOCK, tl.cdiv(last, BLOCK)):\n        n = i * BLOCK + lane\n{ROUND}"
    ),
    "a longer step than any sequence asks for": (
        f"{SHARED}step = tl.where(length > 65536, 2 * BLOCK, BLOCK)\n"
        f"    for i in range(first, last, step):\n        n = i + lane\n{ROUND}"
    ),
}


def _linted(loop: str, folder: Path) -> tuple[str, list[str], str]:
    report = report_of(folder, PAGED.replace("LOOP", loop), "03_paged_attention")
    return report.verdict, [f.message for f in report.findings], report.promises[0].state


@pytest.mark.parametrize("how", LEFT_OUT)
def test_pages_that_no_program_looks_up_are_left_out(how: str, tmp_path: Path) -> None:
    verdict, found, state = _linted(LEFT_OUT[how], tmp_path)
    assert (verdict, state) == ("rubric_leak", "broken") and "all of block_table" in found[0], found


@pytest.mark.parametrize("how", READ)
def test_programs_that_share_the_pages_leave_none_out(how: str, tmp_path: Path) -> None:
    assert _linted(READ[how], tmp_path) == ("clean", [], "kept")
