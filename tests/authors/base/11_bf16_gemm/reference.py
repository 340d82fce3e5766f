"""A bf16 GEMM in plain torch, and its exact result."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor


class Model(nn.Module):
    """x [M,K] -> x @ weight^T [M,N], all bf16."""

    def __init__(self, M: int, N: int, K: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.bfloat16))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T


def oracle(init: Mapping[str, Any], inputs: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    """The product in float64."""
    return (inputs["x"].double() @ state["weight"].double().T,)
