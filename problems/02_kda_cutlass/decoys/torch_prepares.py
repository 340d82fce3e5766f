"""Torch makes the scores and the triangular solves of all chunks; a kernel only carries the state over them."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def carry(
    read, keep, u, w, scores, decay, out, N,
    C: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    dv = tl.program_id(0) * BV + tl.arange(0, BV)
    dk, i = tl.arange(0, K), tl.arange(0, C)
    state = tl.zeros((K, BV), tl.float32)
    for chunk in range(N):
        line = ((head * N + chunk) * C + i)[:, None]
        known = state.to(tl.bfloat16)
        seen = tl.dot(tl.load(w + line * K + dk[None, :]), known)
        fresh = (tl.load(u + line * V + dv[None, :]) - seen).to(tl.bfloat16)
        answer = tl.dot(tl.load(read + line * K + dk[None, :]), known)
        answer = tl.dot(tl.load(scores + line * C + i[None, :]), fresh, answer)
        tl.store(out + line * V + dv[None, :], answer.to(tl.bfloat16))
        fade = tl.load(decay + (head * N + chunk) * K + dk)
        state = tl.dot(tl.trans(tl.load(keep + line * K + dk[None, :])), fresh, state * fade[:, None])


class Model(nn.Module):
    def __init__(self, B: int, T: int, H: int, K: int, V: int, chunk_size: int) -> None:
        super().__init__()
        self.size, self.scale = chunk_size, K**-0.5

    def forward(self, q, k, v, g, beta):
        (B, T, H, K), V, C = q.shape, v.shape[-1], self.size
        q, k, v, g = (x.transpose(1, 2).reshape(B * H, T // C, C, -1).float().contiguous() for x in (q, k, v, g))
        step = beta.transpose(1, 2).reshape(B * H, T // C, C, 1).float()
        total = g.cumsum(2)
        ahead, behind = k * total.exp(), k * total.neg().exp()
        pairs = torch.tril(torch.matmul(ahead * step, behind.mT), -1)
        eye = torch.eye(C, device=q.device).expand_as(pairs)
        inverse = torch.linalg.solve_triangular(eye + pairs, eye, upper=False, unitriangular=True)
        u = torch.matmul(inverse, v * step).contiguous()
        w = torch.matmul(inverse, ahead * step).bfloat16()
        reads = (q * self.scale * total.exp()).bfloat16()
        scores = torch.tril(torch.matmul(reads.float(), behind.mT)).bfloat16()
        last = total[:, :, -1:]
        keep = (k * (last - total).exp()).bfloat16()
        out = torch.empty(B * H, T, V, dtype=torch.bfloat16, device=v.device)
        carry[(V // 16, B * H)](
            reads, keep, u, w, scores, last.exp().contiguous(), out, T // C, C=C, K=K, V=V, BV=16, num_stages=2
        )
        return out.view(B, H, T, V).transpose(1, 2).contiguous()
