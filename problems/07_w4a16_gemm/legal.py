"""GEMM with 4-bit weights in legal precision: the dequantised weight rounded to bf16, sums in fp32."""

from collections.abc import Mapping
from typing import Any

import torch

from grader.precision import matmul, round_to

# The shape that tolerances are derived at: the error depends on K, and rows and columns are alike.
SHAPES = ({"M": 256, "N": 1024, "K": 4096},)


def legal(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """y [M, N] bf16; `precision["weight"]` is the format of (q - zero) * scale as an operand of the product.

    A kernel that scales each group's product in f32 instead is more exact than this.
    """
    group = init["group_size"]
    packed = state["w_q"]
    q = torch.stack((packed & 0xF, packed >> 4), dim=1).flatten(0, 1).float()
    zeros = state["zeros"].float().repeat_interleave(group, dim=0)
    scales = state["scales"].float().repeat_interleave(group, dim=0)
    weight = round_to((q - zeros) * scales, precision["weight"])
    return (matmul(inputs["x"], weight, precision["accumulator"]).to(torch.bfloat16),)
