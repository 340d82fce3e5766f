"""GEMM with 4-bit weights: unpacked, dequantised by group, then multiplied in bf16."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn as nn


class Model(nn.Module):
    """x [M, K] bf16 @ ((q - zero) * scale), q packed along K with the even row in the low nibble -> [M, N] bf16."""

    def __init__(self, M: int, N: int, K: int, group_size: int = 128) -> None:
        super().__init__()
        self.group = group_size
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        nibbles = torch.stack((self.w_q & 0xF, self.w_q >> 4), dim=1).flatten(0, 1).to(torch.bfloat16)
        scales = self.scales.repeat_interleave(self.group, dim=0)
        zeros = self.zeros.repeat_interleave(self.group, dim=0)
        return x @ ((nibbles - zeros) * scales)


def oracle(
    init: Mapping[str, Any], inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """y [M, N] in fp64 from the exact weight (q - zero) * scale."""
    group, packed = init["group_size"], state["w_q"]
    weight = torch.stack((packed & 0xF, packed >> 4), dim=1).flatten(0, 1).double()
    groups = weight.view(-1, group, weight.shape[1])
    groups.sub_(state["zeros"].double()[:, None]).mul_(state["scales"].double()[:, None])
    return (inputs["x"].double() @ weight,)
