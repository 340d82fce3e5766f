"""What ends a run is told by its class, never by the words that a reader gets."""

from __future__ import annotations

from pathlib import Path

import pytest

import kbh_lint

PROGRAM = """
import sys
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        LINE
"""


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("sys.exit(3)", {"KBH307", "KBH710"}),
        ("raise SystemExit", {"KBH307", "KBH710"}),
        ('raise RuntimeError("what it calls raises SystemExit")', {"KBH710"}),
        ('raise RuntimeError("name weight is not defined")', {"KBH710"}),
    ],
)
def test_an_exception_that_only_speaks_of_an_exit_ends_no_process(tmp_path: Path, line: str, rules: set[str]) -> None:
    path = tmp_path / "solution.py"
    path.write_text(PROGRAM.replace("LINE", line), encoding="utf-8")
    file = kbh_lint.lint([path], problem="01_fp8_gemm").files[0]
    assert {finding.rule for finding in file.findings} == rules


def test_a_module_whose_error_speaks_of_a_class_model_raises_it(tmp_path: Path) -> None:
    path = tmp_path / "solution.py"
    path.write_text('raise ValueError("there is no class Model")\n', encoding="utf-8")
    (finding,) = kbh_lint.lint([path], problem="01_fp8_gemm").files[0].findings
    assert (finding.rule, finding.message) == ("KBH710", "the module raises ValueError: there is no class Model")
