"""Inputs that a kernel rounds to fewer bits where nothing is multiplied as a matrix."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

PROBLEM = "09_fmha_preattn_mrope"
HONEST = (Path(__file__).parents[2] / "problems" / PROBLEM / "honest" / "triton.py").read_text(encoding="utf-8")
READ = "left = tl.load(read, mask=mask, other=0.0).to(tl.float32)"
ANGLE = "cos_left = tl.load(cos + row, mask=inside, other=0.0).to(tl.float32)"


@pytest.mark.parametrize("kind, found", [
    ("tl.float8e4nv", True), ("tl.float8e5", True), ("tl.float16", False), ("tl.bfloat16", False),
])  # fmt: skip
def test_eight_bits_are_too_few(tmp_path: Path, kind: str, found: bool) -> None:
    assert READ in HONEST
    report = report_of(tmp_path, HONEST.replace(READ, READ.replace(".to(", f".to({kind}).to(")), PROBLEM)
    assert {finding.rule for finding in report.findings} == ({"KBH403"} if found else set())


def test_positions_are_no_numbers_that_are_rounded(tmp_path: Path) -> None:
    text = HONEST.replace(ANGLE, "pages = at_t.to(tl.int8).to(tl.int32)\n    " + ANGLE)
    assert ANGLE in HONEST and report_of(tmp_path, text, PROBLEM).verdict == "clean"
