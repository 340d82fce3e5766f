"""Patches are laid out by views and a copy, and the library multiplies them."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, B: int, C: int, T: int, H: int, W: int, kT: int, kH: int, kW: int, embed_dim: int) -> None:
        super().__init__()
        self.size = (kT, kH, kW)
        self.conv = nn.Conv3d(C, embed_dim, self.size, stride=self.size, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for axis, size in enumerate(self.size):
            x = x.unflatten(2 + 2 * axis, (-1, size))
        patches = x.permute(0, 2, 4, 6, 1, 3, 5, 7).flatten(4)
        return (patches @ self.conv.weight.flatten(1).t()).permute(0, 4, 1, 2, 3).contiguous()
