"""The recurrence over chunks in torch, handed to torch.compile, whose kernels then carry the score."""

import torch
import torch.nn as nn


def one_chunk(state, q, k, v, g, beta, scale: float):
    total = g.cumsum(-2)
    up = total.exp()
    ahead, behind = k * up, k * torch.exp(-total)
    pairs = torch.tril(torch.matmul(ahead * beta, behind.mT), -1)
    fresh = beta * (v - torch.matmul(ahead, state))
    eye = torch.eye(k.shape[-2], device=k.device)
    solved = torch.linalg.solve_triangular(eye + pairs, fresh, upper=False, unitriangular=True)
    reads = q * scale * up
    out = torch.matmul(reads, state) + torch.matmul(torch.tril(torch.matmul(reads, behind.mT)), solved)
    kept = k * torch.exp(total[..., -1:, :] - total)
    return out, state * up[..., -1, :, None] + torch.matmul(kept.mT, solved)


class Model(nn.Module):
    def __init__(self, B: int, T: int, H: int, K: int, V: int, chunk_size: int) -> None:
        super().__init__()
        self.size, self.scale = chunk_size, K**-0.5
        self.step = torch.compile(one_chunk)

    def forward(self, q, k, v, g, beta):
        q, k, v, g = (x.float().transpose(1, 2).unflatten(2, (-1, self.size)) for x in (q, k, v, g))
        beta = beta.float().transpose(1, 2).unflatten(2, (-1, self.size))[..., None]
        state = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1])
        chunks = []
        for i in range(q.shape[2]):
            out, state = self.step(state, q[:, :, i], k[:, :, i], v[:, :, i], g[:, :, i], beta[:, :, i], self.scale)
            chunks.append(out)
        return torch.stack(chunks, 2).flatten(2, 3).transpose(1, 2).to(torch.bfloat16).contiguous()
