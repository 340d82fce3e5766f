"""GEMM with 4-bit weights in legal precision: the dequantised weight rounded to bf16, sums in fp32."""

from collections.abc import Mapping
from typing import Any

import torch

from grader.precision import matmul, round_to

# The shape that tolerances are derived at: the error depends on K, and rows and columns are alike.
SHAPES = ({"M": 256, "N": 1024, "K": 4096},)

# x enters the product as it is, and scales and zero points enter the dequantisation so.
INPUTS = "f32"


def legal(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """y [M, N] bf16; `precision["weight"]` is the format of (q - zero) * scale as an operand of the product.

    A kernel that scales each group's product in f32 instead is more exact than this.
    """
    q, zeros, scales = unpacked(init, state)
    weight = round_to((q - zeros) * scales, precision["weight"])
    return (matmul(inputs["x"], weight, precision["accumulator"]).to(torch.bfloat16),)


def by_group(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """Whole numbers are what multiplies x, exactly; each group's fp32 sum takes scale and zero point after that."""
    group = int(init["group_size"])
    x, packed = inputs["x"].float(), state["w_q"]
    q = torch.stack((packed & 0xF, packed >> 4), dim=1).flatten(0, 1).float()
    total = torch.zeros(x.shape[0], q.shape[1], device=x.device)
    for number, (some, own) in enumerate(zip(x.split(group, 1), q.split(group, 0), strict=True)):
        scale, zero = state["scales"][number].float(), state["zeros"][number].float()
        total += scale * (matmul(some, own, precision["accumulator"]) - zero * some.sum(-1, keepdim=True))
    return (total.to(torch.bfloat16),)


def split_k(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """As `legal`, with each step of the weight in bf16 and K in four parts whose fp32 sums merge, the last first."""
    q, zeros, scales = unpacked(init, state)
    weight = round_to(round_to(q - zeros, precision["weight"]) * scales, precision["weight"])
    parts = zip(inputs["x"].chunk(4, dim=1), weight.chunk(4, dim=0), strict=True)
    sums = [matmul(x, own, precision["accumulator"]) for x, own in parts]
    return ((((sums[3] + sums[2]) + sums[1]) + sums[0]).to(torch.bfloat16),)


def unpacked(init: Mapping[str, Any], state: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The whole numbers of the weight, and zero points and scales for each of them; [K, N] f32."""
    group = int(init["group_size"])
    packed = state["w_q"]
    q = torch.stack((packed & 0xF, packed >> 4), dim=1).flatten(0, 1).float()
    zeros, scales = (state[name].float().repeat_interleave(group, dim=0) for name in ("zeros", "scales"))
    return q, zeros, scales


VARIANTS = {"legal": legal, "by-group": by_group, "split-k": split_k}
