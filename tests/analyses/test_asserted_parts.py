"""Asserts about the structure of inputs: what all legal inputs pass is harmless, equal parts are an assumption."""

from __future__ import annotations

from pathlib import Path

import pytest
from expert_programs import program, states
from linted import report_of

KERNEL = """
@triton.jit
def swiglu(x, gate, up, offsets, y, H, I, B: tl.constexpr):
    expert = tl.program_id(0)
    cols = tl.program_id(1) * B + tl.arange(0, B)
    last = tl.load(offsets + expert + 1)
    for first in range(tl.load(offsets + expert), last, B):
        rows = first + tl.arange(0, B)
        product(x, gate, up, y, rows, rows < last, cols, expert, H, I, B)
"""
FORWARD = """
sizes = expert_offsets[1:] - expert_offsets[:-1]
CHECK
swiglu[(E, I // B)](hidden_states, *weights, expert_offsets, y, H, I, B=B)
"""
CHECKS = {
    "no part is less than nothing": ("assert bool((sizes >= 0).all())", []),
    "all rows belong to a part": ("assert int(expert_offsets[-1]) == rows and int(expert_offsets[0]) == 0", []),
    "the parts are as large as the first": ("assert bool((sizes == int(sizes[0])).all())", ["KBH401"]),
    "the parts are a share each": ("assert torch.all(sizes == rows // E)", ["KBH401"]),
}


@pytest.mark.parametrize("check", CHECKS)
def test_an_assert_that_only_equal_parts_pass_breaks_the_promise(tmp_path: Path, check: str) -> None:
    line, rules = CHECKS[check]
    report = report_of(tmp_path, program(KERNEL, FORWARD.replace("CHECK", line)))
    assert [finding.rule for finding in report.findings] == rules
    assert states(report) == {"broken" if rules else "kept"}
