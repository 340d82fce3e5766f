"""Softmax in legal precision: fp32 throughout, hardware exponential and division, a compensated sum."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from grader.precision import round_to

PARTS, LANES = 4, 256
THREADS, EACH = 128, 16  # of a chunk whose terms are summed plainly

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


def online(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """Maximum and sum in one pass by LANES threads of PARTS blocks, each with Kahan's loop and a maximum of its own.

    A sum and its compensation are scaled where a larger maximum comes, and once more where threads and then blocks are
    merged in pairs, the loss of each addition kept beside the sum. A second pass makes the outputs.
    """
    x, factor = inputs["x"], math.log2(math.e)

    def scale(lower: torch.Tensor, higher: torch.Tensor) -> torch.Tensor:
        return exp2((lower - higher) * factor, precision)

    steps = x.unflatten(-1, (PARTS, -1, LANES)).movedim(2, 0)
    top, total, lost = steps[0], torch.ones_like(steps[0]), torch.zeros_like(steps[0])
    for step in steps[1:]:
        higher = torch.maximum(top, step)
        kept = scale(top, higher)
        total, top = total * kept, higher
        term = scale(step, higher) - lost * kept
        after = total + term
        total, lost = after, (after - total) - term
    top, total, lost = (t.flatten(1) for t in (top, total, lost))
    while top.shape[1] > 1:
        higher = torch.maximum(top[:, 0::2], top[:, 1::2])
        left, right = (total[:, i::2] * scale(top[:, i::2], higher) for i in (0, 1))
        lost = sum(lost[:, i::2] * scale(top[:, i::2], higher) for i in (0, 1))
        total = left + right
        other = total - left
        lost, top = lost - ((left - (total - other)) + (right - other)), higher
    return (round_to(scale(x, top) / (total - lost), precision["division"]),)


def scaled(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """As `legal`, and each logit is multiplied by log2 e, rounded to fp32, while it is read; the maximum comes after.

    The rounding of the product is relative to the logit, not to its distance from the maximum.
    """
    x = inputs["x"] * math.log2(math.e)
    return softmax(x - x.amax(-1, keepdim=True), precision)


def chunked(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """As `legal`, and the sum is compensated between chunks alone, as a Triton kernel has it that sums a block a step.

    In a chunk each of THREADS threads adds EACH terms in turn and the threads are added in pairs, all in plain fp32.
    """
    x = inputs["x"]
    terms = exp2((x - x.amax(-1, keepdim=True)) * math.log2(math.e), precision)
    parts = terms.unflatten(-1, (-1, EACH, THREADS))
    chunks = parts[..., 0, :]
    for i in range(1, EACH):
        chunks = chunks + parts[..., i, :]
    while chunks.shape[-1] > 1:
        chunks = chunks[..., 0::2] + chunks[..., 1::2]
    total, lost = torch.zeros_like(chunks[:, 0]), torch.zeros_like(chunks[:, 0])
    for chunk in chunks.unbind(1):
        term = chunk - lost
        after = total + term
        total, lost = after, (after - total) - term
    return (round_to((terms.double() / total.double()).float(), precision["division"]),)


def exp2(power: torch.Tensor, precision: Mapping[str, str]) -> torch.Tensor:
    """2 to the power, as the hardware has it."""
    return round_to(torch.exp2(power.double()).float(), precision["exponential"])


def softmax(power: torch.Tensor, precision: Mapping[str, str]) -> tuple[torch.Tensor, ...]:
    """2 to the power over its sum."""
    terms = exp2(power, precision)
    total = terms.double().sum(-1, keepdim=True).float()
    return (round_to((terms.double() / total.double()).float(), precision["division"]),)


VARIANTS = {"legal": legal, "folded": folded, "online": online, "scaled": scaled, "chunked": chunked}
