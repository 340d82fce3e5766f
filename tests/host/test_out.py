"""`out=`: what an operation does to the tensor that its caller brings, and where one that cannot hold it leads."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, KERNEL, WORK, check_what_holds, lint, model

INTO = """\
s = torch.empty(SIZE, dtype=torch.float32, device=x.device)
torch.mul(self.weight_scale, 1.0, out=s)
"""
CAUGHT = """\
try:
    torch.mul(self.weight_scale, 0.5, out=torch.empty(N, dtype=torch.TYPE, device=x.device))
    held = True
except RuntimeError:
    held = False
"""


@pytest.mark.parametrize("size", ["N", "0", "(2, 3)"])
def test_a_result_gives_what_was_brought_its_shape(tmp_path: Path, size: str) -> None:
    check_what_holds(tmp_path, "", INTO.replace("SIZE", size), "s.shape == (N,)")


def test_the_output_of_a_model_may_be_brought_empty(tmp_path: Path) -> None:
    brought = "z = torch.empty(0, dtype=torch.bfloat16, device=x.device)\ntorch.mul(y, 1.0, out=z)\nreturn z\n"
    report = lint(tmp_path, HEAD + KERNEL + model(WORK + brought))
    assert "output-not-as-declared" not in {finding.leak_class for finding in report.findings}


def test_whole_numbers_hold_no_fractions_and_the_handler_runs(tmp_path: Path) -> None:
    check_what_holds(tmp_path, "", CAUGHT.replace("TYPE", "int32"), "not held")
    check_what_holds(tmp_path, "", CAUGHT.replace("TYPE", "float16"), "held")
