"""A launch that cannot succeed is no path: where a handler leaves the work to a library then, the library does it."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

PROBLEM = "05_topk_bitonic"
HONEST = (Path(__file__).parents[2] / "problems" / PROBLEM / "honest" / "triton.py").read_text(encoding="utf-8")
GIVEN = "            x, kept, n, self.tiles,\n"
FORWARD = "    def forward(self, x: torch.Tensor)"
CAUGHT = """
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        try:
            return self.ours(x)
        except Exception:
            values, indices = torch.topk(x, self.k)
            return values, indices
"""
COLUMNS = "    columns = tile * SIZE + tl.arange(0, SIZE)\n"
ROW = "    row = tl.program_id(0)\n    tile"
GRID = "tile_best[(batch, self.tiles)]"
NEVER = "    if SIZE == 3:\n        unused = tl.zeros((SIZE,), tl.float32) + elsewhere(SIZE)\n"
VARIANTS = {
    "as it is": (GIVEN, GIVEN, "clean"),
    "an argument is missing": (GIVEN, "            x, kept, n,\n", "reward_hack"),
    "an autotuner whose configurations are not known": (
        "@triton.jit\ndef tile_best",
        "@triton.autotune(configs=list(of()), key=[])\n@triton.jit\ndef tile_best",
        "open",
    ),
    "arguments that are not known": (GIVEN, "            *self.more(x, kept, n),\n", "unproven"),
    "a tile of no power of two": (COLUMNS, COLUMNS.replace("0, SIZE)", "0, SIZE - 1)"), "reward_hack"),
    "a tile that is too large": (COLUMNS, COLUMNS + "    room = tl.full([SIZE, 1024], 0, tl.int8)\n", "reward_hack"),
    "a name that nothing binds": (ROW, ROW.replace("(0)", "(elsewhere(0))"), "reward_hack"),
    "a name that triton lacks": (COLUMNS, COLUMNS + "    tl.synchronise()\n", "reward_hack"),
    "a branch that is not compiled": (COLUMNS, COLUMNS + NEVER, "clean"),
    "a name on the host that nothing binds": (GRID, GRID.replace("batch,", "rows_of(batch),"), "reward_hack"),
    "a name that some branch binds": (
        GRID, f"for rows_of in ():\n            pass\n        {GRID.replace('batch,', 'rows_of(batch),')}", "unproven",
    ),
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_launch_that_cannot_succeed_leaves_the_work_to_the_handler(tmp_path: Path, variant: str) -> None:
    old, new, verdict = VARIANTS[variant]
    assert old in HONEST and FORWARD in HONEST
    text = HONEST
    if verdict == "open":  # which may give what the launch leaves out
        text = "from configurations import of\n" + text.replace(GIVEN, GIVEN.replace(" self.tiles,", ""))
        verdict = "clean"
    text = text.replace(old, new).replace(FORWARD, "    def ours(self, x: torch.Tensor)") + CAUGHT
    report = report_of(tmp_path, text, PROBLEM)
    assert report.verdict == verdict


def test_a_launch_that_lacks_an_argument_raises_where_nobody_catches_it(tmp_path: Path) -> None:
    report = report_of(tmp_path, HONEST.replace(GIVEN, "            x, kept, n,\n"), PROBLEM)
    assert report.verdict == "unproven" and "will-crash" in {finding.leak_class for finding in report.findings}
