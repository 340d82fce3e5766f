"""Offsets rise, the first and the last are known: what asks no more of them in Triton or in torch is no reading."""

from __future__ import annotations

from pathlib import Path

import pytest
from expert_programs import program, states
from linted import report_of

KERNEL = """
@triton.jit
def swiglu(x, gate, up, offsets, y, each, H, I, total, E: tl.constexpr, EP: tl.constexpr, B: tl.constexpr):
    expert = tl.program_id(0)
    cols = tl.program_id(1) * B + tl.arange(0, B)
    ROWS
    for start in range(first, last, B):
        rows = start + tl.arange(0, B)
        product(x, gate, up, y, rows, rows < last, cols, expert, H, I, B)
"""
FORWARD = """
counts = expert_offsets[1:] - expert_offsets[:-1]
each = EACH
numbers = {"E": E, "EP": triton.next_power_of_2(E), "B": B}
swiglu[(E, I // B)](hidden_states, *weights, expert_offsets, y, each, H, I, rows, **numbers)
"""
TEXT = program(KERNEL, FORWARD)
FIXED = "first = expert * each\n"
OWN = FIXED + "own = tl.load(offsets + expert + 1) - tl.load(offsets + expert)\n"
PAIR = FIXED + "o0 = tl.load(offsets + expert)\no1 = tl.load(offsets + (expert + 1))\n"
ALL = """i = tl.arange(0, EP)
counts = tl.load(offsets + 1 + i, mask=i < E, other=0) - tl.load(offsets + i, mask=i < E, other=0)
ends = tl.cumsum(counts, 0)
"""
LEAKS = {
    "a count that is never below zero": f"{OWN}last = tl.where(own >= 0, first + each, first)",
    "what a count lacks to zero": f"{OWN}last = first + each + tl.minimum(own, 0)",
    "an end that is never before its start": f"{PAIR}last = first\nif o1 >= o0:\n    last += each",
    "the same the other way round": f"{PAIR}last = tl.where(o1 < o0, first, first + each)",
    "an assertion": f"{PAIR}tl.device_assert(o1 >= o0)\nlast = first + each",
    "all counts together": f"{FIXED}{ALL}last = tl.minimum(first + each, tl.sum(counts, 0))",
    "the largest of the running sums": f"{FIXED}{ALL}last = tl.minimum(first + each, tl.max(ends, 0))",
    "running sums that are asserted": f"{FIXED}{ALL}tl.device_assert(tl.max(ends, 0) == total)\nlast = first + each",
}
HONEST = {
    "the rows of an expert": "first = tl.load(offsets + expert)\nlast = tl.load(offsets + expert + 1)",
    "a count": f"{OWN}first = tl.load(offsets + expert)\nlast = first + tl.maximum(own, 0)",
    "an expert without rows": f"{PAIR}first = o0\nlast = tl.where(o1 > o0, o1, o0)",
    "rows that there may be none of": f"{OWN}last = tl.where(own > 0, first + each, first)",
    "running sums": f"{ALL}last = tl.sum(tl.where(i == expert, ends, 0))\n"
    "first = last - tl.sum(tl.where(i == expert, counts, 0))",
    "the largest count": f"{ALL}most = tl.max(counts, 0)\nfirst = tl.load(offsets + expert)\nlast = first + most",
    "all counts but the last": f"{FIXED}{ALL}last = first + tl.sum(tl.where(i < E - 1, counts, 0))",
    "a place that changes between": (
        f"{FIXED}i = expert\no0 = tl.load(offsets + i)\ni = each % 7\no1 = tl.load(offsets + i)\n"
        "last = tl.where(o1 >= o0, first + each, first)"
    ),
}
IN_TORCH = {
    "int(counts.sum()) // E": True,
    "int(torch.diff(expert_offsets).sum()) // E": True,
    "int(torch.cumsum(counts, 0)[-1]) // E": True,
    "int(counts.max())": False,
    "int(counts[:-1].sum()) // E": False,
    "int(torch.cumsum(counts, 0)[0])": False,
}


def linted(tmp_path: Path, rows: str, each: str = "rows // E") -> tuple[object, set[str], set[str]]:
    inside = rows.replace("\n", "\n    ")
    report = report_of(tmp_path, TEXT.replace("ROWS", inside).replace("EACH", each))
    return report.verdict, {finding.leak_class for finding in report.findings}, states(report)


@pytest.mark.parametrize("how", LEAKS)
def test_a_question_with_one_answer_is_no_reading(tmp_path: Path, how: str) -> None:
    verdict, found, promised = linted(tmp_path, LEAKS[how])
    assert (verdict, promised) == ("rubric_leak", {"broken"}) and "input-structure-hardcode" in found


@pytest.mark.parametrize("how", HONEST)
def test_what_offsets_decide_is_read(tmp_path: Path, how: str) -> None:
    _, found, promised = linted(tmp_path, HONEST[how])
    assert promised == {"kept"} and "input-structure-hardcode" not in found, found


@pytest.mark.parametrize("each", IN_TORCH)
def test_what_counts_come_to_is_a_number(tmp_path: Path, each: str) -> None:
    _, found, promised = linted(tmp_path, f"{FIXED}last = first + each", each)
    assert (
        promised == {"broken" if IN_TORCH[each] else "kept"} and ("input-structure-hardcode" in found) == IN_TORCH[each]
    )


def test_places_in_two_parts_of_the_offsets_are_not_compared(tmp_path: Path) -> None:
    """`starts` and `stops` begin at other offsets: the same place in both is another one of the whole."""
    text = TEXT.replace("expert_offsets, y", "expert_offsets[:-1], expert_offsets[1:], y")
    text = text.replace("offsets, y, each, H, I, total", "starts, stops, y, each, H, I, total")
    rows = (
        "o0 = tl.load(starts + expert)\n    o1 = tl.load(stops + expert)\n    first = expert * each\n    last = first\n"
    )
    text = text.replace("ROWS", rows + "    if o1 > o0:\n        last += each").replace("EACH", "rows // E")
    assert states(report_of(tmp_path, text)) == {"kept"}
