"""Exceptions of the submission that start inside a built-in function."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

SOURCE = """
import torch
import torch.nn as nn


def rank(size):
    if size == 3:
        raise ValueError("not this one")
    return size


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(N, K, dtype=torch.bfloat16))

    def forward(self, x):
        try:
            CALL
        except ValueError:
            return x.to(torch.bfloat16) @ self.weight.t()
        return x
"""


@pytest.mark.parametrize("call", ["max([1, 2, 3], key=rank)", "sorted([1, 2, 3], key=rank)", "[3, 1].sort(key=rank)"])
def test_an_exception_of_a_key_function_reaches_its_handler(call: str, tmp_path: Path) -> None:
    path = tmp_path / "solution.py"
    path.write_text(SOURCE.replace("CALL", call), encoding="utf-8")
    (file,) = lint([path], problem="01_fp8_gemm", raise_errors=True).files
    assert "fp8-upcast-bf16-gemm" in {finding.leak_class for finding in file.findings}
