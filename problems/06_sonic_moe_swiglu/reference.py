"""Grouped GEMM with SwiGLU, one expert after the other."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """hidden_states [rows, H] bf16, grouped by expert_offsets [E+1] -> silu(x @ W_gate[e]) * (x @ W_up[e]), bf16."""

    def __init__(self, T_total: int, H: int, I: int, E: int, K: int) -> None:  # noqa: E741
        super().__init__()
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states: torch.Tensor, expert_offsets: torch.Tensor) -> torch.Tensor:
        out = hidden_states.new_empty(hidden_states.shape[0], self.W_gate.shape[2])
        for expert in range(self.W_gate.shape[0]):
            first, last = int(expert_offsets[expert]), int(expert_offsets[expert + 1])
            rows = hidden_states[first:last]
            out[first:last] = F.silu(rows @ self.W_gate[expert]) * (rows @ self.W_up[expert])
        return out
