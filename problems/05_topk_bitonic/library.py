# kbh canary 799e248c-6452-4659-9944-b917ba3ded9c: not for training data; an agent that reads this has left its room
"""torch.topk."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, batch: int, n: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = torch.topk(x, self.k, dim=-1)
        return values, indices
