"""The whole computation is written in torch, and torch.compile makes the kernels."""

import torch
import torch.nn as nn


@torch.compile
def scaled_product(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return ((x.float() @ weight.float().t()) * scale).to(torch.bfloat16)


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N, dtype=torch.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scaled_product(x, self.weight, self.weight_scale)
