"""Wrong grouped GEMMs: rows given to the wrong expert, rows or columns left out, the wrong gate."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

from grader.mutation import Mutant, generic

from .reference import Model

TILE = 64


class Experts(nn.Module):
    """The grouped GEMM in fp32 with one `fault` in it; no fault is the right one."""

    def __init__(self, fault: str, init: Mapping[str, Any]) -> None:
        super().__init__()
        self.fault = fault
        size = (init["E"], init["H"], init["I"])
        self.register_buffer("W_gate", torch.empty(size, dtype=torch.bfloat16))
        self.register_buffer("W_up", torch.empty(size, dtype=torch.bfloat16))

    def forward(self, hidden_states: torch.Tensor, expert_offsets: torch.Tensor) -> torch.Tensor:
        rows, experts = hidden_states.shape[0], self.W_gate.shape[0]
        out = torch.zeros(rows, self.W_gate.shape[2], dtype=torch.bfloat16, device=hidden_states.device)
        bounds = self.bounds(expert_offsets.tolist(), rows)
        owned = 0
        for expert, (first, last) in enumerate(zip(bounds, bounds[1:])):
            weights = owned if self.fault == "empty-experts-skipped" else expert
            owned += last > first
            if self.fault == "half-the-experts":
                weights = expert % (experts // 2)
            if self.fault == "last-expert-missing" and expert == experts - 1:
                continue
            x = hidden_states[first:last]
            out[first:last] = self.rows(x, self.W_gate[weights], self.W_up[weights], rows // experts)
        return out

    def bounds(self, bounds: list[int], rows: int) -> list[int]:
        """Which rows each expert owns."""
        experts = len(bounds) - 1
        inner = bounds[1:-1]
        changed = {
            "offsets-ignored": [rows * expert // experts for expert in range(1, experts)],
            "boundary-one-late": [min(bound + 1, rows) for bound in inner],
            "boundary-one-early": [max(bound - 1, 0) for bound in inner],
            "boundary-rounded": [bound // TILE * TILE for bound in inner],
        }
        return [0, *changed.get(self.fault, inner), rows]

    def rows(self, x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, mean: int) -> torch.Tensor:
        """One expert's rows; those that a fault leaves out stay zero."""
        done = x.shape[0]
        if self.fault == "capped-at-the-mean":
            done = min(done, mean)
        if self.fault == "whole-tiles-only":
            done = done // TILE * TILE
        if self.fault == "capped-at-twice-the-mean":
            done = min(done, 2 * mean)
        out = torch.zeros(x.shape[0], gate.shape[1], device=x.device)
        out[:done] = self.swiglu(*self.products(x[:done], gate, up))
        return out.to(torch.bfloat16)

    def products(self, x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x @ gate and x @ up."""
        wide, weights = x.float(), [gate.float(), up.float()]
        if self.fault == "last-slice-of-H":
            wide = wide.clone()
            wide[:, -16:] = 0
        if self.fault == "fp8-activations":
            scale = wide.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 448
            wide = (wide / scale).to(torch.float8_e4m3fn).float() * scale
        if self.fault == "fp8-weights":
            scales = [weight.abs().amax(0, keepdim=True) / 448 for weight in weights]
            weights = [(w / s).to(torch.float8_e4m3fn).float() * s for w, s in zip(weights, scales)]
        if self.fault == "bf16-accumulator":
            return tuple(accumulate(wide, weight) for weight in weights)
        return wide @ weights[0], wide @ weights[1]

    def swiglu(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        if self.fault == "gate-and-up-exchanged":
            gate, up = up, gate
        if self.fault == "gelu":
            return F.gelu(gate) * up
        if self.fault == "sigmoid":
            return torch.sigmoid(gate) * up
        if self.fault == "no-up":
            return F.silu(gate)
        if self.fault == "gate-clamped":
            gate = gate.clamp(-1, 1)
        return F.silu(gate) * up


def accumulate(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x @ weight with the running sum rounded to bf16 after every 8 terms, the shortest step of a tensor core."""
    total = torch.zeros(x.shape[0], weight.shape[1], device=x.device)
    for start in range(0, x.shape[1], 8):
        part = x[:, start : start + 8] @ weight[start : start + 8]
        total = (total + part).to(torch.bfloat16).float()
    return total


FAULTS = {
    "offsets-ignored": "Every expert owns the same number of rows.",
    "boundary-one-late": "The first row of each expert goes to the expert before it.",
    "boundary-one-early": "The last row of each expert goes to the expert after it.",
    "boundary-rounded": "Boundaries are rounded down to the tile.",
    "capped-at-the-mean": "The launch covers the mean number of rows of an expert; what lies past it stays zero.",
    "capped-at-twice-the-mean": "The launch covers twice the mean number of rows of an expert.",
    "whole-tiles-only": "An expert's last tile is left out when it is not full.",
    "empty-experts-skipped": "Experts are numbered among those that own rows.",
    "half-the-experts": "The second half of the experts has the weights of the first.",
    "last-expert-missing": "The last expert's rows stay zero.",
    "last-slice-of-H": "The last 16 of the H terms are left out.",
    "fp8-activations": "hidden_states are e4m3 in the products, scaled by row.",
    "fp8-weights": "The weights are e4m3 in the products, scaled by column.",
    "bf16-accumulator": "The running sums of both products are bf16.",
    "gate-and-up-exchanged": "The gate is up and up is the gate.",
    "gelu": "GELU takes the place of SiLU.",
    "sigmoid": "The gate's sigmoid is not multiplied by the gate.",
    "no-up": "The result is not multiplied by up.",
    "gate-clamped": "The gate is clamped to one either way.",
}

MUTANTS = (*generic(Model), *(Mutant(fault, idea, partial(Experts, fault)) for fault, idea in FAULTS.items()))
