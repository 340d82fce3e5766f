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


TYPES = """\
try:
    torch.mul(torch.ones(3, dtype=torch.OF, device=x.device), 1, out=torch.empty(3, dtype=torch.TO, device=x.device))
    held = True
except RuntimeError:
    held = False
"""
LINEAR = """\
s = torch.empty(SIZE, dtype=torch.float32, device=x.device)
r = torch.nn.functional.linear(torch.ones(3, 8, device=x.device), torch.ones(5, 8, device=x.device), out=s)
"""


@pytest.mark.parametrize("of, to", [("int32", "bool"), ("float32", "bool"), ("complex64", "float32")])
def test_a_type_that_cannot_hold_the_result_fails(tmp_path: Path, of: str, to: str) -> None:
    check_what_holds(tmp_path, "", TYPES.replace("OF", of).replace("TO", to), "not held")
    check_what_holds(tmp_path, "", TYPES.replace("OF", to).replace("TO", of), "held")


@pytest.mark.parametrize("size", ["(3, 5)", "0"])
def test_linear_writes_what_was_brought(tmp_path: Path, size: str) -> None:
    check_what_holds(tmp_path, "", LINEAR.replace("SIZE", size), "r is s and s.shape == (3, 5)")
