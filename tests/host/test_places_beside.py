"""What is found in a Python file beside a solution is told where it stands: there, or in the bundle that holds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

SOLUTION = """# kbh: problem=01_fp8_gemm
import torch
import torch.nn as nn
from MODULE import product


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.zeros(N, dtype=torch.float32))

    def forward(self, x):
        return product(x, self.weight, self.weight_scale)
"""
BESIDE = """import torch


def product(x, weight, scale):
    return (torch.mm(x.to(torch.bfloat16), weight.to(torch.bfloat16).t()) * scale).to(torch.bfloat16)
"""


@pytest.mark.parametrize("module", ["helper", "reference", "parts.reference"])
def test_a_file_beside_is_named_by_its_path(tmp_path: Path, module: str) -> None:
    path, beside = tmp_path / "solution.py", tmp_path / f"{module.replace('.', '/')}.py"
    beside.parent.mkdir(exist_ok=True)
    path.write_text(SOLUTION.replace("MODULE", module), encoding="utf-8")
    beside.write_text(BESIDE, encoding="utf-8")
    (report,) = lint([path], raise_errors=True).files
    (found,) = [f for f in report.findings if f.rule == "KBH101"]
    assert (found.span.path, found.span.line) == (str(beside), 5)


@pytest.mark.parametrize("module", ["helper", "reference"])
def test_a_block_of_a_bundle_is_named_by_the_lines_of_the_bundle(tmp_path: Path, module: str) -> None:
    path = tmp_path / "solution.py"
    marker = f"# ===== sidecar: {module}.py ({len(BESIDE)} bytes, loaded by solution.py) =====\n"
    path.write_text(SOLUTION.replace("MODULE", module) + marker + BESIDE, encoding="utf-8")
    (report,) = lint([path], raise_errors=True).files
    (found,) = [f for f in report.findings if f.rule == "KBH101"]
    line = (SOLUTION + marker).count("\n") + 5
    assert (found.span.path, found.span.line) == (str(path), line)
