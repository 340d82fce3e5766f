"""The reference of the `deck` contract: the product of the fp8 operands in fp32, scaled by column."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn as nn


class Model(nn.Module):
    """y[M,N] bf16 = (x[M,K] e4m3 @ weight[N,K]^T e4m3) * weight_scale[N]."""

    def __init__(self, M: int, N: int, K: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N, dtype=torch.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product = x.to(torch.float32) @ self.weight.to(torch.float32).T
        return (product * self.weight_scale).to(torch.bfloat16)


def oracle(
    init: Mapping[str, Any], inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """y [M, N] in fp64 from the same fp8 operands."""
    product = inputs["x"].double() @ state["weight"].double().T
    return (product * state["weight_scale"].double(),)
