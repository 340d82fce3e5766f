"""The product over unfolded patches is written in torch, and torch.compile makes the kernels."""

import torch
import torch.nn as nn


@torch.compile(dynamic=False)
def embed(x: torch.Tensor, weight: torch.Tensor, size: tuple[int, int, int]) -> torch.Tensor:
    for axis, length in enumerate(size):
        x = x.unflatten(2 + 2 * axis, (-1, length))
    patches = x.permute(0, 2, 4, 6, 1, 3, 5, 7).flatten(4)
    return torch.inner(patches, weight.flatten(1)).permute(0, 4, 1, 2, 3).contiguous()


class Model(nn.Module):
    def __init__(self, B: int, C: int, T: int, H: int, W: int, kT: int, kH: int, kW: int, embed_dim: int) -> None:
        super().__init__()
        self.size = (kT, kH, kW)
        self.conv = nn.Conv3d(C, embed_dim, self.size, stride=self.size, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return embed(x, self.conv.weight, self.size)
