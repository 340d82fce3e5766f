"""Patch embedding as the convolution that it is."""

from collections.abc import Mapping
from typing import Any

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


def oracle(
    init: Mapping[str, Any], inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """y [B, embed_dim, T/kT, H/kH, W/kW] in fp64: the patches unfolded, one product."""
    x, weight = inputs["x"].double(), state["conv.weight"].double()
    batch, channels, frames, height, width = x.shape
    kt, kh, kw = weight.shape[2:]
    split = x.view(batch, channels, frames // kt, kt, height // kh, kh, width // kw, kw)
    patches = split.permute(0, 2, 4, 6, 1, 3, 5, 7).flatten(4)
    return ((patches @ weight.flatten(1).T).permute(0, 4, 1, 2, 3).contiguous(),)
