"""Kimi Delta Attention, the chunked gated delta rule: in fp32, and in fp64."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn as nn


class Model(nn.Module):
    """q, k, v bf16, g f32 (log of the decay), beta bf16, all [B, T, H, ...] -> [B, T, H, V] bf16."""

    def __init__(self, B: int, T: int, H: int, K: int, V: int, chunk_size: int) -> None:
        super().__init__()
        self.chunk = chunk_size

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor
    ) -> torch.Tensor:
        return delta_rule(*(t.float() for t in (q, k, v, g, beta)), self.chunk).to(torch.bfloat16)


def oracle(
    init: Mapping[str, Any], inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """The same in fp64; [B, T, H, V]. The tests hold it to the recurrence, step by step, on every kind of case."""
    return (delta_rule(*(inputs[name].double() for name in ("q", "k", "v", "g", "beta")), int(init["chunk_size"])),)


def delta_rule(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor, chunk: int
) -> torch.Tensor:
    """S = exp(g) * S; S += beta * k (v - k.S); out = K**-0.5 * q.S, for each step of T, a chunk at a time.

    All in the arguments' type: one triangular solve a chunk, then a loop that carries the state S[K, V].
    """
    q, k, v, g = (t.transpose(1, 2).unflatten(2, (-1, chunk)) for t in (q, k, v, g))
    step = beta.transpose(1, 2).unflatten(2, (-1, chunk))[..., None]
    decay = g.cumsum(-2)
    reads = q * decay.exp() * q.shape[-1] ** -0.5
    ahead, behind = k * decay.exp(), k * (-decay).exp()
    # Each position sees the updates before it in its chunk; solving undoes that they see one another.
    pairs = (step * ahead @ behind.transpose(-1, -2)).tril(-1)
    system = torch.eye(chunk, dtype=q.dtype, device=q.device) + pairs
    w = torch.linalg.solve_triangular(system, step * ahead, upper=False, unitriangular=True)
    u = torch.linalg.solve_triangular(system, step * v, upper=False, unitriangular=True)
    scores = (reads @ behind.transpose(-1, -2)).tril()
    state = torch.zeros(*q.shape[:2], q.shape[-1], v.shape[-1], dtype=q.dtype, device=q.device)
    out = torch.empty_like(v)
    for i in range(q.shape[2]):
        fresh = u[:, :, i] - w[:, :, i] @ state
        out[:, :, i] = reads[:, :, i] @ state + scores[:, :, i] @ fresh
        last = decay[:, :, i, -1:]
        kept = k[:, :, i] * (last - decay[:, :, i]).exp()
        state = state * last.transpose(-1, -2).exp() + kept.transpose(-1, -2) @ fresh
    return out.flatten(2, 3).transpose(1, 2).contiguous()
