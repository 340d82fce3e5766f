# kbh canary 799e248c-6452-4659-9944-b917ba3ded9c: not for training data; an agent that reads this has left its room
"""torch's int4 product (tinygemm), with the weight brought into its layout in the first call."""

import torch
import torch.nn as nn

INNER_TILES = 8
MIDDLE = 8  # the library's weight is (q - 8) * scale + zero


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int, group_size: int = 128) -> None:
        super().__init__()
        self.group = group_size
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.packed: tuple[torch.Tensor, torch.Tensor] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.packed is None:
            self.packed = self.pack()
        weight, groups = self.packed
        if x.is_cuda:
            return torch._weight_int4pack_mm(x, weight, self.group, groups)
        return torch._weight_int4pack_mm_for_cpu(x, weight, self.group, groups)

    def pack(self) -> tuple[torch.Tensor, torch.Tensor]:
        even, odd = (self.w_q & 0xF).t(), (self.w_q >> 4).t()
        if self.w_q.is_cuda:
            weight = torch._convert_weight_to_int4pack(((even << 4) | odd).contiguous(), INNER_TILES)
        else:
            whole = torch.stack((even, odd), dim=-1).flatten(1).int().contiguous()
            weight = torch._convert_weight_to_int4pack_for_cpu(whole, INNER_TILES)
        scales = self.scales.float()
        zeros = (MIDDLE - self.zeros.float()) * scales
        return weight, torch.stack((scales, zeros), dim=-1).to(torch.bfloat16).contiguous()
