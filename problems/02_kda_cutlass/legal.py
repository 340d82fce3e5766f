"""What may be less exact than the oracle: the chunked form with bf16 operands, fp32 accumulators and an fp32 state."""

from collections.abc import Mapping
from typing import Any

import torch

from grader.precision import matmul, round_to

# What the derivation samples: all of T, K and V, over which errors add up, and fewer heads.
SHAPES = [
    {"B": 1, "T": 1024, "H": 4, "K": 128, "V": 128, "CHUNK_SIZE": 64},
    {"B": 1, "T": 4096, "H": 2, "K": 128, "V": 128, "CHUNK_SIZE": 64},
]


def legal(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """[B, T, H, V] bf16. `precision`: `operands`, `state-operand` (a copy of the state), `accumulator`.

    The cumulative decay, the matrix that is inverted, its inverse and the carried state stay in fp32: their errors
    would grow along the chunk or along T. What enters a product may be rounded, and so may what a kernel hands to the
    next one through memory (w, u and the copy of the state are operands there).
    """
    chunk, scale = int(init["chunk_size"]), int(init["K"]) ** -0.5

    def operand(t: torch.Tensor) -> torch.Tensor:
        return round_to(t, precision["operands"])

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return matmul(a, b, precision["accumulator"])

    q, k, v, g = (inputs[name].float().transpose(1, 2).unflatten(2, (-1, chunk)) for name in ("q", "k", "v", "g"))
    step = inputs["beta"].float().transpose(1, 2).unflatten(2, (-1, chunk))[..., None]
    decay = g.cumsum(-2)
    reads = operand(q * decay.exp() * scale)
    ahead, behind = operand(k * decay.exp()), operand(k * (-decay).exp())
    pairs = (step * product(ahead, behind.transpose(-1, -2))).tril(-1)
    unit = torch.eye(chunk, device=q.device)
    inverse = torch.linalg.solve_triangular(unit + pairs, unit.expand_as(pairs), upper=False, unitriangular=True)
    inverse = operand(inverse)
    w = operand(product(inverse, operand(step * ahead)))
    u = operand(product(inverse, operand(step * v)))
    scores = operand(product(reads, behind.transpose(-1, -2)).tril())
    kept = operand(k * (decay[..., -1:, :] - decay).exp())
    carried = torch.zeros(*q.shape[:2], q.shape[-1], v.shape[-1], device=q.device)
    out = torch.empty_like(v)
    for i in range(q.shape[2]):
        read = round_to(carried, precision["state-operand"])
        fresh = operand(u[:, :, i] - product(w[:, :, i], read))
        out[:, :, i] = product(reads[:, :, i], read) + product(scores[:, :, i], fresh)
        left = decay[:, :, i, -1, :, None].exp()
        carried = carried * left + product(kept[:, :, i].transpose(-1, -2), fresh)
    return (out.flatten(2, 3).transpose(1, 2).to(torch.bfloat16),)
