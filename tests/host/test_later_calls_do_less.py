"""A launch that covers its buffer in the first calls and less of it later leaves old results there; one that is only
shaped otherwise does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

PROBLEM = "05_topk_bitonic"
HONEST = (Path(__file__).parents[2] / "problems" / PROBLEM / "honest" / "triton.py").read_text(encoding="utf-8")
INIT = '        self.register_buffer("_dummy", torch.zeros(1))\n'
KEPT = """        self.kept = torch.empty(batch, self.tiles, 1 << self.log_k, dtype=torch.int64, device="cuda")
        self.outputs = torch.empty(batch, k, device="cuda"), torch.empty(batch, k, dtype=torch.int64, device="cuda")
"""
MADE = HONEST[HONEST.index("        kept = torch.empty(batch, self.tiles") : HONEST.index("        tile_best[")]
FIRST, LAST = "tile_best[(batch, self.tiles)]", "row_best[(batch,)]"
WARPS = "            num_warps=self.WARPS,\n"
BY_COUNT = "        self.turn += 1\n        rows = batch if self.turn < 40 else batch // 2\n"
BY_LIST = "        rows = self.turns.pop() if self.turns else 1\n"
BY_BUDGET = "        self.budget = max(self.budget - 0.5, 0.0)\n        rows = batch if self.budget else 1\n"
LEAK, HELD = ("rubric_leak", True), ("clean", False)
VARIANTS = {
    "all rows": ("", "", {}, HELD),
    "fewer rows after a while": ("self.turn = 0", BY_COUNT, {LAST: "row_best[(rows,)]"}, LEAK),
    "a list that runs empty": ("self.turns = [batch] * 9", BY_LIST, {LAST: "row_best[(rows,)]"}, LEAK),
    "a budget that is spent": ("self.budget = 8.0", BY_BUDGET, {FIRST: "tile_best[(rows, self.tiles)]"}, LEAK),
    "other warps after a while": (
        "self.turn = 0", BY_COUNT, {WARPS: "            num_warps=8 if rows == batch else 4,\n"}, HELD,
    ),
    "buffers in turns": (
        "self.turn = 0\n        self.more = [torch.empty_like(self.kept), self.kept]",
        "        self.turn ^= 1\n        kept = self.more[self.turn]\n", {}, HELD,
    ),
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_later_calls_leave_out_stays_from_earlier_ones(tmp_path: Path, variant: str) -> None:
    state, before, changes, (verdict, stale) = VARIANTS[variant]
    assert INIT in HONEST and FIRST in HONEST and LAST in HONEST and WARPS in HONEST
    text = HONEST.replace(INIT, INIT + KEPT + (f"        {state}\n" if state else ""))
    given = "        kept, (values, indices) = self.kept, self.outputs\n        keep = 1 << self.log_k\n"
    text = text.replace(MADE, given + before)
    for old, new in changes.items():
        text = text.replace(old, new)
    report = report_of(tmp_path, text, PROBLEM)
    found = {finding.leak_class for finding in report.findings}
    assert (report.verdict, "identity-keyed-input-cache" in found) == (verdict, stale)
