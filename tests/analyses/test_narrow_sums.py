"""Sums of exponentials in 16 bits: a leak where all of them are, and told where some are."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

PROBLEM = "03_paged_attention"
HONEST = (Path(__file__).parents[2] / "problems" / PROBLEM / "honest" / "triton.py").read_text(encoding="utf-8")
IN_THE_LOOP = {
    "total = tl.zeros((ROWS,), tl.float32)": "total = tl.zeros((ROWS,), tl.float16)",
    "total = total * shrink + tl.sum(p, axis=1)": (
        "total = total * shrink.to(tl.float16) + tl.sum(p.to(tl.float16), axis=1)"
    ),
}
MERGED = {
    'tl.sum(weight * tl.load(part_total + parts, mask=left, other=0.0, cache_modifier=".cg"), axis=0)': (
        "tl.sum((weight * tl.load(part_total + parts, mask=left, other=0.0)).to(tl.float16), axis=0)"
    ),
    "tl.sum(weight[:, :, None] * values, axis=0)": "tl.sum((weight[:, :, None] * values).to(tl.float16), axis=0)",
}
WEIGHED = {
    "acc = tl.zeros((ROWS, DIM), tl.float32)": "acc = tl.zeros((ROWS, DIM), tl.float16)",
    "acc = tl.dot(p.to(tl.bfloat16), v, acc * shrink[:, None])": (
        "acc = tl.sum((p[:, :, None] * v[None, :, :]).to(tl.float16), axis=1) + acc * shrink[:, None].to(tl.float16)"
    ),
}


@pytest.mark.parametrize(
    ("edits", "verdict", "rules"),
    [
        ({}, "clean", set()),
        (IN_THE_LOOP, "interesting", {"KBH404"}),
        ({**IN_THE_LOOP, **MERGED}, "interesting", {"KBH404"}),
        ({**IN_THE_LOOP, **MERGED, **WEIGHED}, "rubric_leak", {"KBH403"}),
    ],
    ids=["none", "in the loop", "of weights", "all"],
)
def test_sums_of_exponentials_may_not_all_be_narrow(
    tmp_path: Path, edits: dict[str, str], verdict: str, rules: set[str]
) -> None:
    text = HONEST
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "solution.py"
    path.write_text(text, encoding="utf-8")
    (report,) = lint([path], problem=PROBLEM).files
    assert (report.verdict, {finding.rule for finding in report.findings}) == (verdict, rules)
