"""Plans that take a group of one row for an empty one, so that its row is never computed, and plans that do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from expert_programs import program, states
from linted import report_of

KERNELS = """
@triton.jit
def plan(offsets, owner, begins, ends, count, E: tl.constexpr, EP: tl.constexpr, B: tl.constexpr):
    e = tl.program_id(0)
    i = tl.arange(0, EP)
    low = tl.load(offsets + i, mask=i < E, other=0)
    high = tl.load(offsets + i + 1, mask=i < E, other=0)
    rows = high - low
    tiles = TILES
    tiles = tl.where(i < E, tiles, 0)
    before = tl.sum(tl.where(i < e, tiles, 0), 0)
    mine = tl.sum(tl.where(i == e, tiles, 0), 0)
    begin, end = tl.load(offsets + e), tl.load(offsets + e + 1)
    for t in range(0, mine):
        tl.store(owner + before + t, e)
        tl.store(begins + before + t, begin + t * B)
        tl.store(ends + before + t, end)
    if e == E - 1:
        tl.store(count, before + mine)


@triton.jit
def swiglu(x, gate, up, owner, begins, ends, count, y, H, I, B: tl.constexpr):
    tile = tl.program_id(0)
    if tile < tl.load(count):
        rows = tl.load(begins + tile) + tl.arange(0, B)
        cols = tl.program_id(1) * B + tl.arange(0, B)
        product(x, gate, up, y, rows, rows < tl.load(ends + tile), cols, tl.load(owner + tile), H, I, B)


@triton.jit
def rest(x, gate, up, offsets, y, H, I, B: tl.constexpr):
    expert = tl.program_id(0)
    end = tl.load(offsets + expert + 1)
    rows = end - (end - tl.load(offsets + expert)) % B + tl.arange(0, B)
    cols = tl.program_id(1) * B + tl.arange(0, B)
    product(x, gate, up, y, rows, rows < end, cols, expert, H, I, B)
"""
FORWARD = """
most = triton.cdiv(rows, B) + E
lists = [torch.empty(n, dtype=torch.int32, device=hidden_states.device) for n in (most, most, most, 1)]
plan[(E,)](expert_offsets, *lists, E=E, EP=triton.next_power_of_2(E), B=B)
swiglu[(most, I // B)](hidden_states, *weights, *lists, y, H, I, B=B)
LAST
"""
REST = "rest[(E, I // B)](hidden_states, *weights, expert_offsets, y, H, I, B=B)"
WHOLE = "rows // B"
UNSEEN = {
    "whole tiles": (WHOLE, "pass"),
    "whole tiles by a shift": ("rows >> 6", "pass"),
    "experts with few rows": ("tl.where(rows >= 16, tl.cdiv(rows, B), 0)", "pass"),
    "rounded to the nearest": ("(rows + B // 2) // B", "pass"),
}
SEEN = {
    "all tiles": ("tl.cdiv(rows, B)", "pass"),
    "one tile more where rows are left": ("rows // B + (rows % B > 0).to(tl.int32)", "pass"),
    "one tile more than there may be": ("rows // B + 1", "pass"),
    "whole tiles, and the rest elsewhere": (WHOLE, REST),
    "experts without rows": ("tl.where(rows > 0, tl.cdiv(rows, B), 0)", "pass"),
}


def linted(tmp_path: Path, tiles: str, last: str) -> tuple[str, list[str], set[str]]:
    report = report_of(tmp_path, program(KERNELS.replace("TILES", tiles), FORWARD.replace("LAST", last)))
    return report.verdict, [finding.message for finding in report.findings], states(report)


@pytest.mark.parametrize("how", UNSEEN)
def test_a_plan_that_takes_one_row_for_none_is_told(tmp_path: Path, how: str) -> None:
    verdict, found, promised = linted(tmp_path, *UNSEEN[how])
    assert (verdict, promised) == ("rubric_leak", {"broken"}) and any("a group of one row" in one for one in found), (
        found
    )


@pytest.mark.parametrize("how", SEEN)
def test_a_plan_with_a_tile_for_one_row_is_none(tmp_path: Path, how: str) -> None:
    _, found, promised = linted(tmp_path, *SEEN[how])
    assert promised == {"kept"} and not found, found
