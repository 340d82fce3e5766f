# kbh canary 799e248c-6452-4659-9944-b917ba3ded9c: not for training data; an agent that reads this has left its room
"""torch.softmax in fp64, rounded afterwards: in fp32 its sum loses more than this problem allows."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, batch: int, vocab: int) -> None:
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=-1, dtype=torch.float64).float()
