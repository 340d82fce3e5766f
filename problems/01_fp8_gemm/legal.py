"""FP8 GEMM in legal precision: exact e4m3 products, the architecture's fp8 accumulator, one rounding to bf16."""

from collections.abc import Mapping
from typing import Any

import torch

from grader.precision import matmul

# Shapes that tolerances are derived at: the error grows with K, and rows and columns are alike.
SHAPES = ({"M": 64, "N": 256, "K": 4127}, {"M": 32, "N": 512, "K": 8192})


def legal(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """y [M, N] bf16; `precision["accumulator"]` is f32 or e4m3-wgmma. The channel scale is applied in f32."""
    product = matmul(inputs["x"], state["weight"].T, precision["accumulator"])
    return ((product * state["weight_scale"]).to(torch.bfloat16),)
