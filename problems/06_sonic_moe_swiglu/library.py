# kbh canary 799e248c-6452-4659-9944-b917ba3ded9c: not for training data; an agent that reads this has left its room
"""torch._grouped_mm, once for the gates and once for the rest, with SwiGLU by torch between them."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, T_total: int, H: int, I: int, E: int, K: int) -> None:  # noqa: E741
        super().__init__()
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states: torch.Tensor, expert_offsets: torch.Tensor) -> torch.Tensor:
        ends = expert_offsets[1:].to(torch.int32)
        gates = torch._grouped_mm(hidden_states, self.W_gate, offs=ends)
        return F.silu(gates) * torch._grouped_mm(hidden_states, self.W_up, offs=ends)
