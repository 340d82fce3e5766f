"""The reference of the `original` contract: x is widened to the weight's bf16 before the product."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """y[M,N] bf16 = x[M,K] e4m3 @ weight[N,K]^T bf16."""

    def __init__(self, M: int, N: int, K: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(N, K, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.bfloat16) @ self.weight.T
