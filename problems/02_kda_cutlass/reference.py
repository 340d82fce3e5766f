"""The chunked gated delta rule in fp32: one triangular solve a chunk, then a loop that carries the state."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """q, k, v bf16, g f32 (log of the decay), beta bf16, all [B, T, H, ...] -> [B, T, H, V] bf16."""

    def __init__(self, B: int, T: int, H: int, K: int, V: int, chunk_size: int) -> None:
        super().__init__()
        self.chunk, self.scale = chunk_size, K**-0.5

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor
    ) -> torch.Tensor:
        q, k, v, g = (t.float().transpose(1, 2).unflatten(2, (-1, self.chunk)) for t in (q, k, v, g))
        step = beta.float().transpose(1, 2).unflatten(2, (-1, self.chunk))[..., None]
        decay = g.cumsum(-2)
        reads = q * decay.exp() * self.scale
        ahead, behind = k * decay.exp(), k * (-decay).exp()
        # Each position sees the updates before it in its chunk; solving undoes that they see one another.
        pairs = (step * ahead @ behind.transpose(-1, -2)).tril(-1)
        system = torch.eye(self.chunk, device=q.device) + pairs
        w = torch.linalg.solve_triangular(system, step * ahead, upper=False, unitriangular=True)
        u = torch.linalg.solve_triangular(system, step * v, upper=False, unitriangular=True)
        scores = (reads @ behind.transpose(-1, -2)).tril()
        state = torch.zeros(*q.shape[:2], q.shape[-1], v.shape[-1], device=q.device)
        out = torch.empty_like(v)
        for i in range(q.shape[2]):
            fresh = u[:, :, i] - w[:, :, i] @ state
            out[:, :, i] = reads[:, :, i] @ state + scores[:, :, i] @ fresh
            last = decay[:, :, i, -1:]
            kept = k[:, :, i] * (last - decay[:, :, i]).exp()
            state = state * last.transpose(-1, -2).exp() + kept.transpose(-1, -2) @ fresh
        return out.flatten(2, 3).transpose(1, 2).to(torch.bfloat16)
