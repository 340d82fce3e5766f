"""Values of inputs that choose how much of what is multiplied a kernel reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

HONEST = Path(__file__).parents[2] / "problems" / "03_paged_attention" / "honest" / "triton.py"
QUERY = "    q = tl.load(query + at, mask=real[:, None], other=0.0)\n"
KEYS = "mask=keep[None, :], other=0.0)"
NORM = "tl.sqrt(tl.max(tl.sum(q.to(tl.float32) * q.to(tl.float32), 1), 0))"
# How many channels of the keys are read, and whether values decide that.
WIDTHS = {
    "the norm of the query": (f"tl.where({NORM} < 2.5, DIM - DIM // 8, DIM)", True),
    "its largest element": ("tl.where(tl.max(tl.max(tl.abs(q), 1), 0) > 1.0, DIM, DIM // 2)", True),
    "whether it is zero": (f"tl.where({NORM} == 0.0, 0, DIM)", False),
    "all of them": ("DIM", False),
    "a size": ("tl.where(PAGE > 4096, DIM // 2, DIM)", False),
}


@pytest.mark.parametrize("how", WIDTHS)
def test_a_mask_by_values_is_told(tmp_path: Path, how: str) -> None:
    width, steered = WIDTHS[how]
    text = HONEST.read_text(encoding="utf-8")
    assert QUERY in text and KEYS in text
    text = text.replace(QUERY, f"{QUERY}    width = {width}\n")
    text = text.replace(KEYS, "mask=keep[None, :] & (dims < width)[:, None], other=0.0)")
    report = report_of(tmp_path, text, "03_paged_attention")
    assert ({finding.rule for finding in report.findings} == {"KBH402"}) == steered, report.findings
