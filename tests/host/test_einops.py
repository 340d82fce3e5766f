"""einops patterns as the steps that they stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

import kbh_lint
from kbh_lint.host.einops import plan


@pytest.mark.parametrize(
    ("pattern", "shape", "sizes", "split", "order", "merged"),
    [
        ("b t h d -> b h t d", (2, 8, 4, 16), {}, (2, 8, 4, 16), (0, 2, 1, 3), (2, 4, 8, 16)),
        ("b (n c) d -> (b n) c d", (2, 12, 5), {"c": 4}, (2, 3, 4, 5), (0, 1, 2, 3), (6, 4, 5)),
        ("... (h d) -> ... h d", (2, 3, 8), {"h": 2}, (2, 3, 2, 4), (0, 1, 2, 3), (2, 3, 2, 4)),
        ("b n -> b n 1", (2, 3), {}, (2, 3), (0, 1), (2, 3, 1)),
    ],
)
def test_a_pattern_splits_orders_and_merges(
    pattern: str, shape: tuple[int, ...], sizes: dict[str, int], split: object, order: object, merged: object
) -> None:
    steps = plan(pattern, shape, sizes)
    assert steps is not None
    assert (steps.split, steps.order, steps.merged) == (split, order, merged)


def test_a_repeated_axis_is_added_and_a_missing_one_reduced() -> None:
    repeat = plan("b d -> b r d", (2, 5), {"r": 3})
    assert repeat is not None
    assert (repeat.blank, repeat.added) == ((2, 1, 5), (2, 3, 5))
    reduce = plan("b n d -> b d", (2, 4, 5), {})
    assert reduce is not None
    assert (reduce.reduced, reduce.order) == ((1,), (0, 1))


@pytest.mark.parametrize("pattern", ["b n", "b n -> (b", "b n c -> b", "b b -> b", "((b) n -> n"])
def test_a_pattern_that_does_not_fit_gives_no_steps_or_harmless_ones(pattern: str) -> None:
    steps = plan(pattern, (2, 3), {})
    assert steps is None or len(steps.split) <= 2


CODE = """
import torch
import torch.nn as nn
from einops import einsum, rearrange


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        y = einsum(x.bfloat16(), rearrange(self.weight, "n k -> k n").bfloat16(), "row deep, deep col -> row col")
        return (y * self.weight_scale).bfloat16()
"""


def test_einsum_by_names_is_a_library_product_and_no_foreign_function(tmp_path: Path) -> None:
    path = tmp_path / "solution.py"
    path.write_text(CODE, encoding="utf-8")
    report = kbh_lint.lint([path], problem="01_fp8_gemm", raise_errors=True).files[0]
    classes = {finding.leak_class for finding in report.findings}
    assert {"fp8-upcast-bf16-gemm", "zero-kernel-torch-wrapper"} <= classes
    assert "foreign-library-compute" not in classes
