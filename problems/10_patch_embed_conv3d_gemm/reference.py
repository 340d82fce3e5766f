"""Patch embedding as the convolution that it is."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """x [B, C, T, H, W] bf16 -> [B, embed_dim, T/kT, H/kH, W/kW] bf16; the stride is the kernel, without bias."""

    def __init__(self, B: int, C: int, T: int, H: int, W: int, kT: int, kH: int, kW: int, embed_dim: int) -> None:
        super().__init__()
        size = (kT, kH, kW)
        self.conv = nn.Conv3d(C, embed_dim, size, stride=size, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)
