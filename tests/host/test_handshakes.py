"""Launches on different streams that wait for one another by flags: who reads what is not the order of the launches."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

PROGRAM = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rank(x, ranks, flags, n, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    mine = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    own = tl.load(x + row * n + mine, mask=mine < n, other=0.0)
    larger = tl.zeros((BLOCK,), tl.int32)
    for j in range(0, n):
        other = tl.load(x + row * n + j)
        larger += ((other > own) | ((other == own) & (j < mine))).to(tl.int32)
    tl.store(ranks + row * n + mine, larger, mask=mine < n)
    tl.debug_barrier()
    tl.atomic_add(flags + row, 1)


@triton.jit
def pick(x, ranks, flags, values, indices, n, k, parts, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    WAIT
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        place = tl.load(ranks + row * n + at, mask=at < n, other=k)
        tl.store(values + row * k + place, tl.load(x + row * n + at, mask=at < n), mask=place < k)
        tl.store(indices + row * k + place, at, mask=place < k)
    AFTER


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k, self.calls = k, 0
        self.register_buffer("ranks", torch.empty(batch, n, dtype=torch.int32), persistent=False)
        self.register_buffer("flags", torch.zeros(batch, dtype=torch.int32), persistent=False)
        self.side, self.other = torch.cuda.Stream(), torch.cuda.Stream()

    def pick(self, x, values, indices, parts):
        n = x.shape[1]
        pick[(x.shape[0],)](x, self.ranks, self.flags, values, indices, n, self.k, parts, BLOCK=1024)

    def rank(self, x):
        rank[(triton.cdiv(x.shape[1], 256), x.shape[0])](x, self.ranks, self.flags, x.shape[1], BLOCK=256)

    def forward(self, x):
        values = torch.empty(x.shape[0], self.k, device=x.device)
        indices = torch.empty(x.shape[0], self.k, dtype=torch.int64, device=x.device)
        now, parts = torch.cuda.current_stream(), triton.cdiv(x.shape[1], 256)
        FIRST
        self.side.wait_stream(now)
        self.other.wait_stream(now)
        ORDER
        now.wait_stream(self.side)
        now.wait_stream(self.other)
        return values, indices
"""
POLL = "while tl.atomic_add(flags + row, 0) < parts:\n        pass"
READ = "seen = tl.load(flags + row, volatile=True)"
LOAD = f"{READ}\n    while seen < parts:\n        {READ}"
CONSUMER = "with torch.cuda.stream(self.side):\n            self.pick(x, values, indices, parts)\n        "
TWO_STREAMS = CONSUMER + "with torch.cuda.stream(self.other):\n            self.rank(x)"
PRODUCER_ON_CALLERS = CONSUMER + "self.rank(x)"
CONSUMER_ON_CALLERS = (
    "self.pick(x, values, indices, parts)\n        with torch.cuda.stream(self.other):\n            self.rank(x)"
)
EPOCH = "self.calls += 1\n        parts = self.calls * parts"
HONEST = {
    "cleared by the host": (POLL, "", "self.flags.zero_()", TWO_STREAMS),
    "cleared by the one that waits": (LOAD, "tl.store(flags + row, 0)", "", PRODUCER_ON_CALLERS),
    "another number each call": (POLL, "", EPOCH, CONSUMER_ON_CALLERS),
}
STALE = {
    "never cleared": (POLL, "", "", TWO_STREAMS),
    "no wait at all": ("", "", "self.flags.zero_()", TWO_STREAMS),
    "a wait before the producer may begin": (
        "", "", "self.flags.zero_()", CONSUMER + "self.other.wait_stream(self.side)\n"
        "        with torch.cuda.stream(self.other):\n            self.rank(x)",
    ),
}  # fmt: skip


def program(wait: str, after: str, first: str, order: str) -> str:
    made = PROGRAM.replace("WAIT", wait).replace("AFTER", after or "tl.debug_barrier()")
    return made.replace("FIRST", first).replace("ORDER", order)


@pytest.mark.parametrize("variant", HONEST)
def test_a_launch_that_waits_for_a_flag_reads_what_the_one_that_sets_it_wrote(tmp_path: Path, variant: str) -> None:
    path = tmp_path / "solution.py"
    path.write_text(program(*HONEST[variant]))
    (report,) = lint([path], problem="05_topk_bitonic").files
    assert (report.verdict, [p.state for p in report.promises]) == ("clean", ["kept"])


@pytest.mark.parametrize("variant", STALE)
def test_one_that_need_not_wait_reads_what_an_earlier_call_left(tmp_path: Path, variant: str) -> None:
    path = tmp_path / "solution.py"
    path.write_text(program(*STALE[variant]))
    (report,) = lint([path], problem="05_topk_bitonic").files
    assert {finding.rule for finding in report.findings} & {"KBH201", "KBH202"}
