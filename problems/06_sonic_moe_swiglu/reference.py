"""Grouped GEMM with SwiGLU, one expert after the other: in bf16, and in fp64."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16384  # rows the oracle takes at a time: one expert may own all of them


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


def pieces(expert_offsets: torch.Tensor) -> Iterator[tuple[int, slice]]:
    """Every expert with the rows it owns, at most ROWS at a time."""
    bounds = expert_offsets.tolist()
    for expert, (first, last) in enumerate(zip(bounds, bounds[1:])):
        for start in range(first, last, ROWS):
            yield expert, slice(start, min(start + ROWS, last))


def oracle(
    init: Mapping[str, Any], inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """The same in fp64, expert by expert, so that only one expert's weights are widened at a time; [rows, I]."""
    hidden, gate, up = inputs["hidden_states"], state["W_gate"], state["W_up"]
    out = torch.zeros(hidden.shape[0], gate.shape[2], dtype=torch.float64, device=hidden.device)
    for expert, rows in pieces(inputs["expert_offsets"]):
        x = hidden[rows].double()
        out[rows] = F.silu(x @ gate[expert].double()).mul_(x @ up[expert].double())
    return (out,)
