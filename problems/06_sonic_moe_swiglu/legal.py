"""What may be less exact than the oracle: gate, up and the activation as bf16 tensors; products accumulate in fp32."""

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F

from grader.precision import matmul, round_to

ROWS = 16384

# What the derivation samples: all of H, over which the products sum, and fewer rows, columns and experts.
SHAPES = [
    {"T_total": 128, "H": 4096, "I": 128, "E": 4, "K": 8},
    {"T_total": 128, "H": 2048, "I": 128, "E": 4, "K": 8},
]

# Operands enter both products as they are: nothing is rounded before the sums.
INPUTS = "f32"


def legal(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """[rows, I] bf16. `precision`: `accumulator`, `gate-and-up`, `activation`.

    A fused kernel keeps gate and up in its fp32 accumulators. Eager PyTorch, which is the baseline, rounds both to
    bf16, and silu(gate) again; that is legal too, so that the baseline is right by its own bound.
    """
    hidden, gate, up = inputs["hidden_states"], state["W_gate"], state["W_up"]
    out = torch.zeros(hidden.shape[0], gate.shape[2], dtype=torch.bfloat16, device=hidden.device)
    bounds = inputs["expert_offsets"].tolist()
    for expert, (first, last) in enumerate(zip(bounds, bounds[1:])):
        for start in range(first, last, ROWS):
            rows = slice(start, min(start + ROWS, last))
            x = hidden[rows].float()
            halves = (matmul(x, weight[expert].float(), precision["accumulator"]) for weight in (gate, up))
            left, right = (round_to(half, precision["gate-and-up"]) for half in halves)
            out[rows] = (round_to(F.silu(left), precision["activation"]) * right).to(torch.bfloat16)
    return (out,)


def fused(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """Gate and up stay in fp32, each the sum of four parts of H; the sigmoid is made of a base-2 exponential."""
    hidden, gate, up = inputs["hidden_states"], state["W_gate"], state["W_up"]
    out = torch.zeros(hidden.shape[0], gate.shape[2], dtype=torch.bfloat16, device=hidden.device)
    bounds = inputs["expert_offsets"].tolist()
    for expert, (first, last) in enumerate(zip(bounds, bounds[1:])):
        x = hidden[first:last].float().chunk(4, dim=1)
        left, right = torch.zeros(2, last - first, gate.shape[2], device=hidden.device).unbind()
        for total, weight in ((left, gate), (right, up)):
            for some, own in zip(x, weight[expert].float().chunk(4, dim=0), strict=True):
                total += matmul(some, own, precision["accumulator"])
        out[first:last] = (left / (1 + torch.exp2(left * -math.log2(math.e))) * right).to(torch.bfloat16)
    return (out,)


def one_product(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """Gate and up as one product over blocks of 64 of H, the last first; the sigmoid is made of a tanh, 2^-11 off."""
    hidden = inputs["hidden_states"]
    columns = state["W_gate"].shape[2]
    out = torch.zeros(hidden.shape[0], columns, dtype=torch.bfloat16, device=hidden.device)
    bounds = inputs["expert_offsets"].tolist()
    for expert, (first, last) in enumerate(zip(bounds, bounds[1:])):
        both = torch.cat((state["W_gate"][expert], state["W_up"][expert]), dim=1)
        total = torch.zeros(last - first, 2 * columns, device=hidden.device)
        for x, weight in reversed(list(zip(hidden[first:last].split(64, 1), both.split(64, 0), strict=True))):
            total += matmul(x, weight, precision["accumulator"])
        left, right = total.split(columns, dim=1)
        turned = round_to(torch.tanh(left / 2), "tf32")
        out[first:last] = (left * (turned / 2 + 0.5) * right).to(torch.bfloat16)
    return (out,)


VARIANTS = {"legal": legal, "fused": fused, "one-product": one_product}
