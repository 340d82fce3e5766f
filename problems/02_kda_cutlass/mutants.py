"""Wrong chunked delta rules: each leaves out or blurs one step of the algorithm."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
import torch.nn as nn

from grader.mutation import Mutant, generic

from .reference import Model


class Chunked(nn.Module):
    """The chunked form in fp32 with one `fault` in it; no fault is the right one."""

    def __init__(self, fault: str, init: Mapping[str, Any]) -> None:
        super().__init__()
        self.fault, self.chunk = fault, int(init["chunk_size"])

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor
    ) -> torch.Tensor:
        q, k, v, g = (t.float().transpose(1, 2).unflatten(2, (-1, self.chunk)) for t in (q, k, v, g))
        step = beta.float().transpose(1, 2).unflatten(2, (-1, self.chunk))[..., None]
        if self.fault == "beta-one":
            step = torch.ones_like(step)
        if self.fault == "scalar-decay":
            g = g.mean(-1, keepdim=True).expand_as(g)
        if self.fault == "decay-rolled":
            g = g.roll(1, -1)
        decay = g.cumsum(-2)
        if self.fault == "decay-late":
            decay = decay - g
        scale = q.shape[-1] ** -0.5 if self.fault != "no-scale" else 1.0
        reads = q * decay.exp() * scale
        ahead, behind = k * decay.exp(), k * (-decay).exp()
        if self.fault == "fp8-operands":
            reads, ahead, behind, v = (narrow(t) for t in (reads, ahead, behind, v))
        pairs = (step * ahead @ behind.transpose(-1, -2)).tril(-1)
        solve = partial(self.solve, pairs)
        w, u = solve(step * ahead), solve(step * v)
        scores = (reads @ behind.transpose(-1, -2)).tril(-1 if self.fault == "blind-to-itself" else 0)
        out = self.carry(k, decay, reads, scores, w, u)
        out = out.flatten(2, 3).transpose(1, 2).to(torch.bfloat16).contiguous()
        if self.fault == "last-tenth":
            out[:, -(out.shape[1] // 10) :] = 0
        return out

    def solve(self, pairs: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """(I + pairs)^-1 right."""
        if self.fault == "no-inverse":
            return right
        if self.fault == "first-order-inverse":
            return right - pairs @ right
        if self.fault == "inverse-of-blocks":
            # Only pairs within blocks of 16 are seen, as when the merge of the blocks' inverses is left out.
            block = torch.arange(self.chunk, device=pairs.device) // 16
            pairs = pairs * (block[:, None] == block)
        unit = torch.eye(self.chunk, device=pairs.device)
        return torch.linalg.solve_triangular(unit + pairs, right, upper=False, unitriangular=True)

    def carry(
        self,
        k: torch.Tensor,
        decay: torch.Tensor,
        reads: torch.Tensor,
        scores: torch.Tensor,
        w: torch.Tensor,
        u: torch.Tensor,
    ) -> torch.Tensor:
        """The loop over chunks; [B, H, chunks, chunk, V]."""
        state = torch.zeros(*k.shape[:2], k.shape[-1], u.shape[-1], device=k.device)
        out = torch.empty_like(u)
        for i in range(k.shape[2]):
            fresh = u[:, :, i] if self.fault == "no-correction" else u[:, :, i] - w[:, :, i] @ state
            last = decay[:, :, i, -1:]
            left = last.transpose(-1, -2).exp() if self.fault != "state-never-decays" else 1.0
            kept = k[:, :, i] * ((last - decay[:, :, i]).exp() if self.fault != "keys-never-decay" else 1.0)
            after = kept.transpose(-1, -2) @ fresh
            out[:, :, i] = scores[:, :, i] @ fresh
            if self.fault == "reads-state-late":
                out[:, :, i] += reads[:, :, i] @ (state * left + after)
            else:
                out[:, :, i] += reads[:, :, i] @ state
            state = after if self.fault == "one-chunk-of-history" else state * left + after
            if self.fault == "no-state":
                state.zero_()
        return out


def narrow(t: torch.Tensor) -> torch.Tensor:
    """Rounded to e4m3 under one scale, as an fp8 tensor core would want it."""
    scale = t.abs().amax((-1, -2), keepdim=True).clamp(min=1e-30) / 448
    return (t / scale).to(torch.float8_e4m3fn).float() * scale


FAULTS = {
    "no-state": "No state passes from chunk to chunk.",
    "one-chunk-of-history": "The state holds the chunk before and nothing older.",
    "no-inverse": "The chunk's own earlier updates are not corrected for: the inverse is left out.",
    "first-order-inverse": "The inverse is the first two terms of its series.",
    "inverse-of-blocks": "Blocks of 16 steps are inverted and never merged.",
    "no-correction": "New values are not corrected by what the state already holds (w @ S is left out).",
    "reads-state-late": "A chunk reads the state that it has itself updated already.",
    "blind-to-itself": "A step does not see its own update.",
    "beta-one": "beta is taken to be 1.",
    "scalar-decay": "The decay is the mean over the channels, as in a gate of one number a head.",
    "decay-rolled": "Each channel decays at its neighbour's rate.",
    "decay-late": "A step's decay is applied one step too late within a chunk.",
    "state-never-decays": "The state is carried over without the chunk's decay.",
    "keys-never-decay": "Updates enter the state without the decay until the end of their chunk.",
    "no-scale": "K**-0.5 is left out.",
    "fp8-operands": "Operands of the chunk's products are e4m3.",
    "last-tenth": "The last tenth of the sequence is left at zero.",
}

MUTANTS = (*generic(Model), *(Mutant(fault, idea, partial(Chunked, fault)) for fault, idea in FAULTS.items()))
