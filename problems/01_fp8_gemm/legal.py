"""FP8 GEMM in legal precision: exact e4m3 products, the architecture's fp8 accumulator, one rounding to bf16."""

from collections.abc import Mapping
from typing import Any

import torch

from grader.precision import matmul

# Shapes that tolerances are derived at: the error grows with K, and rows and columns are alike.
SHAPES = ({"M": 64, "N": 256, "K": 4127}, {"M": 32, "N": 512, "K": 8192})

BLOCK = 128

# Operands enter the product as they are: nothing is rounded before the sums.
INPUTS = "f32"


def legal(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """y [M, N] bf16; `precision["accumulator"]` is f32 or e4m3-wgmma. The channel scale is applied in f32."""
    product = matmul(inputs["x"], state["weight"].T, precision["accumulator"])
    return ((product * state["weight_scale"]).to(torch.bfloat16),)


def split_k(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """As `legal`, with K in four parts whose fp32 sums are added in the order in which they happen to come."""
    parts = zip(inputs["x"].chunk(4, dim=1), state["weight"].chunk(4, dim=1), strict=True)
    sums = [matmul(x, weight.T, precision["accumulator"]) for x, weight in parts]
    product = ((sums[2] + sums[0]) + sums[3]) + sums[1]
    return ((product * state["weight_scale"]).to(torch.bfloat16),)


def promoted(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """As `legal`, in blocks of 128 of K from the last to the first: each has an accumulator of its own, added in fp32.

    The channel scale multiplies every block's sum before it is added.
    """
    total = torch.zeros(inputs["x"].shape[0], state["weight"].shape[0], device=inputs["x"].device)
    pairs = zip(inputs["x"].split(BLOCK, dim=1), state["weight"].split(BLOCK, dim=1), strict=True)
    for x, weight in reversed(list(pairs)):
        total += matmul(x, weight.T, precision["accumulator"]) * state["weight_scale"]
    return (total.to(torch.bfloat16),)


VARIANTS = {"legal": legal, "split-k": split_k, "promoted": promoted}
