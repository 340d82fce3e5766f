"""Unpacking and product are written in torch, and torch.compile makes the kernels."""

import torch
import torch.nn as nn


@torch.compile
def product(
    x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor, group: int
) -> torch.Tensor:
    nibbles = torch.stack((packed & 0xF, packed >> 4), dim=1).flatten(0, 1).to(torch.bfloat16)
    weight = (nibbles.unflatten(0, (-1, group)) - zeros[:, None]) * scales[:, None]
    return x @ weight.flatten(0, 1)


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int, group_size: int = 128) -> None:
        super().__init__()
        self.group = group_size
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return product(x, self.w_q, self.scales, self.zeros, self.group)
