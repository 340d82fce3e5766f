# kbh canary 799e248c-6452-4659-9944-b917ba3ded9c: not for training data; an agent that reads this has left its room
"""torch._scaled_mm with a scale for each column, which is cuBLAS or CUTLASS; other depths than its own are padded."""

import torch
import torch.nn as nn
import torch.nn.functional as F

DEPTH = 16  # the library multiplies operands whose rows have a multiple of 16 bytes


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N, dtype=torch.float32))
        self.register_buffer("ones", torch.ones(M, 1), persistent=False)
        self.missing = -K % DEPTH
        self.padded: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.padded is None:
            self.padded = self.pad(self.weight)
        return torch._scaled_mm(
            self.pad(x), self.padded.t(), scale_a=self.ones, scale_b=self.weight_scale[None], out_dtype=torch.bfloat16
        )

    def pad(self, rows: torch.Tensor) -> torch.Tensor:
        if not self.missing:
            return rows
        return F.pad(rows.view(torch.uint8), (0, self.missing)).view(torch.float8_e4m3fn)
