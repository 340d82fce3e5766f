"""A launch that lacks an argument raises; where a handler leaves the work to a library then, nothing is proven."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

PROBLEM = "05_topk_bitonic"
HONEST = (Path(__file__).parents[2] / "problems" / PROBLEM / "honest" / "triton.py").read_text(encoding="utf-8")
GIVEN = "            x, kept, n, self.tiles,\n"
FORWARD = "    def forward(self, x: torch.Tensor)"
CAUGHT = """
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        try:
            return self.ours(x)
        except TypeError:
            values, indices = torch.topk(x, self.k)
            return values, indices
"""


@pytest.mark.parametrize(("given", "verdict"), [("            x, kept, n,\n", "unproven"), (GIVEN, "clean")])
def test_a_launch_that_lacks_an_argument_leaves_the_work_to_the_handler(
    tmp_path: Path, given: str, verdict: str
) -> None:
    assert GIVEN in HONEST and FORWARD in HONEST
    text = HONEST.replace(GIVEN, given).replace(FORWARD, "    def ours(self, x: torch.Tensor)") + CAUGHT
    path = tmp_path / "solution.py"
    path.write_text(text, encoding="utf-8")
    (report,) = lint([path], problem=PROBLEM, raise_errors=True).files
    assert report.verdict == verdict
