"""Softmax in legal precision: fp32 throughout, hardware exponential and division, a compensated sum."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from grader.precision import round_to

# Shapes that tolerances are derived at; many short rows because heads-and-swamp has only a few sums a row.
SHAPES = (
    {"batch": 256, "vocab": 4096, "extreme": False},
    {"batch": 16, "vocab": 32768, "extreme": False},
    {"batch": 4, "vocab": 262144, "extreme": False},
    {"batch": 8, "vocab": 131072, "extreme": True},
)


def legal(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """softmax(x) [batch, vocab] f32 with `exponential` and `division` in the formats that `precision` gives.

    The exponential is 2^((x - max) * log2 e) with the product rounded to fp32, as GPUs compute it. The sum is made in
    fp64 and rounded once to fp32, which is where a compensated fp32 sum ends up.
    """
    x = inputs["x"]
    return softmax((x - x.amax(-1, keepdim=True)) * math.log2(math.e), precision)


def folded(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """As `legal`, and log2 e is folded into one multiply-add, x * log2 e - (max * log2 e), rounded once."""
    x, factor = inputs["x"], torch.tensor(math.log2(math.e))
    top = x.amax(-1, keepdim=True) * factor
    return softmax((x.double() * factor.double() - top.double()).float(), precision)


def softmax(power: torch.Tensor, precision: Mapping[str, str]) -> tuple[torch.Tensor, ...]:
    """2 to the power over its sum."""
    terms = round_to(torch.exp2(power.double()).float(), precision["exponential"])
    total = terms.double().sum(-1, keepdim=True).float()
    return (round_to((terms.double() / total.double()).float(), precision["division"]),)


VARIANTS = {"legal": legal, "folded": folded}
