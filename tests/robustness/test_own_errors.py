"""Errors of the linter itself: a reason for `unproven` to its users, an error to those who test it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbh_lint import lint
from kbh_lint.host.values import escapes

SOURCE = """
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()

    def forward(self, x):
        return x
"""


def test_an_error_of_the_linter_between_two_calls_is_seen_by_those_who_ask_for_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("a fault of ours")

    monkeypatch.setattr(escapes, "slots", broken)
    path = tmp_path / "solution.py"
    path.write_text(SOURCE, encoding="utf-8")
    with pytest.raises(KeyError, match="a fault of ours"):
        lint([path], problem="01_fp8_gemm", raise_errors=True)
    (report,) = lint([path], problem="01_fp8_gemm").files
    assert report.verdict == "unproven"
    assert any("a fault of ours" in promise.reason for promise in report.promises)
