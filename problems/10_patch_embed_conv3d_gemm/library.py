# kbh canary 799e248c-6452-4659-9944-b917ba3ded9c: not for training data; an agent that reads this has left its room
"""The patches unfolded by torch, then one torch.nn.functional.linear, which is cuBLAS."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, B: int, C: int, T: int, H: int, W: int, kT: int, kH: int, kW: int, embed_dim: int) -> None:
        super().__init__()
        self.size = (kT, kH, kW)
        self.conv = nn.Conv3d(C, embed_dim, self.size, stride=self.size, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, frames, height, width = x.shape
        kt, kh, kw = self.size
        split = x.view(batch, channels, frames // kt, kt, height // kh, kh, width // kw, kw)
        patches = split.permute(0, 2, 4, 6, 1, 3, 5, 7).flatten(4)
        return F.linear(patches, self.conv.weight.flatten(1)).permute(0, 4, 1, 2, 3).contiguous()
