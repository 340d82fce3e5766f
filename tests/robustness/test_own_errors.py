"""Errors of the linter itself: a reason for `unproven` to its users, an error to those who test it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbh_lint import lint
from kbh_lint.base import paths
from kbh_lint.host.gpu import pointer_tables
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


@pytest.mark.parametrize("solution", ["07_w4a16_gemm/honest/triton.py", "05_topk_bitonic/honest/cuda.py"])
def test_what_a_fault_of_ours_lost_of_a_statement_is_a_hole_though_every_promise_looks_kept(
    solution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launch is written down by then, and what follows of it is lost."""

    def broken(*_: Any) -> Any:
        raise AttributeError("a fault of ours")

    path = paths.problems_dir() / solution
    assert lint([path]).files[0].verdict == "clean"
    monkeypatch.setattr(pointer_tables, "after_launch", broken)
    (report,) = lint([path]).files
    assert report.verdict == "unproven"
    assert any("could not follow this" in hole.reason and "a fault of ours" in hole.reason for hole in report.unread)
