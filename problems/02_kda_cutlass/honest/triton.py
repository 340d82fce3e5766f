"""Kimi Delta Attention in chunks: a kernel that prepares all chunks at once, then one that carries the state over them.

Within a chunk, with c the running sum of g, position i sees the step of position j < i through
A[i, j] = beta[i] * sum over channels of k[i] exp(c[i]) * k[j] exp(-c[j]). The updates of a chunk are (I + A)^-1 applied
to beta * (v - k exp(c) S), so `prepare` makes u = (I + A)^-1 beta v and w = (I + A)^-1 beta k exp(c), and `carry` needs
only products with the state S. S and c stay in float32; the operands of the large products are bf16.

The inverse is built by joining: with the inverses N of all blocks of size s on the diagonal known, those of size 2s are
N - N L N, where L is the part of A that joins two neighbours. That is exact and, unlike a power series, stays stable
when the keys of a chunk point the same way. The exponents are taken relative to the middle of the chunk, which halves
their range; what is shifted away is put back per channel.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def invert(A, C: tl.constexpr, LEVELS: tl.constexpr):
    """(I + A)^-1 of a strictly lower triangular A [C, C]."""
    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    inverse = tl.where(i == j, 1.0, 0.0) - tl.where((i // 2 == j // 2) & (i > j), A, 0.0)
    for level in tl.static_range(1, LEVELS):
        joins = (i >> (level + 1) == j >> (level + 1)) & (i >> level > j >> level)
        below = tl.dot(inverse, tl.where(joins, A, 0.0), input_precision="tf32")
        inverse -= tl.dot(below, inverse, input_precision="tf32")
    return inverse


@triton.jit
def prepare(
    q, k, v, g, beta, read, keep, u, w, scores, decay, scale, T, H, K, V,
    C: tl.constexpr, LEVELS: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    chunk, head = tl.program_id(0), tl.program_id(1)
    i = tl.arange(0, C)
    dk, dv = tl.arange(0, BK), tl.arange(0, BV)
    row = (head // H * T + chunk * C + i) * H + head % H
    at_k = row[:, None] * K + dk[None, :]
    in_k = (dk < K)[None, :] & (i >= 0)[:, None]
    in_v = (dv < V)[None, :] & (i >= 0)[:, None]
    keys = tl.load(k + at_k, mask=in_k, other=0.0).to(tl.float32)
    queries = tl.load(q + at_k, mask=in_k, other=0.0).to(tl.float32) * scale
    step = tl.load(beta + row).to(tl.float32)
    total = tl.cumsum(tl.load(g + at_k, mask=in_k, other=0.0), 0)
    middle = tl.sum(tl.where((i == C // 2)[:, None], total, 0.0), 0)[None, :]
    last = tl.sum(tl.where((i == C - 1)[:, None], total, 0.0), 0)[None, :]

    grown = tl.exp(total - middle)
    ahead = (keys * grown).to(tl.bfloat16)
    behind = tl.trans((keys * tl.exp(middle - total)).to(tl.bfloat16))
    asks = (queries * grown).to(tl.bfloat16)
    A = tl.where(i[:, None] > i[None, :], tl.dot(ahead, behind) * step[:, None], 0.0)
    seen = tl.where(i[:, None] >= i[None, :], tl.dot(asks, behind), 0.0)
    solve = (invert(A, C, LEVELS) * step[None, :]).to(tl.bfloat16)

    line = (head * (T // C) + chunk) * C + i
    to_k = line[:, None] * K + dk[None, :]
    values = tl.load(v + row[:, None] * V + dv[None, :], mask=in_v, other=0.0)
    tl.store(u + line[:, None] * V + dv[None, :], tl.dot(solve, values), mask=in_v)
    tl.store(w + to_k, (tl.dot(solve, ahead) * tl.exp(middle)).to(tl.bfloat16), mask=in_k)
    tl.store(scores + line[:, None] * C + i[None, :], seen.to(tl.bfloat16))
    tl.store(read + to_k, (queries * tl.exp(total)).to(tl.bfloat16), mask=in_k)
    tl.store(keep + to_k, (keys * tl.exp(last - total)).to(tl.bfloat16), mask=in_k)
    at_decay = (head * (T // C) + chunk) * K + dk[None, :]
    tl.store(decay + at_decay, tl.exp(last), mask=(dk < K)[None, :])


@triton.jit
def carry(
    read, keep, u, w, scores, decay, out, T, H, K, V,
    C: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    i = tl.arange(0, C)
    dk = tl.arange(0, BK)
    dv = tl.program_id(0) * BV + tl.arange(0, BV)
    in_k = (dk < K)[None, :] & (i >= 0)[:, None]
    in_v = (dv < V)[None, :] & (i >= 0)[:, None]
    state = tl.zeros((BK, BV), tl.float32)
    for chunk in tl.range(0, T // C, num_stages=STAGES):
        line = (head * (T // C) + chunk) * C + i
        at_k = line[:, None] * K + dk[None, :]
        known = state.to(tl.bfloat16)
        updates = tl.load(u + line[:, None] * V + dv[None, :], mask=in_v, other=0.0)
        updates -= tl.dot(tl.load(w + at_k, mask=in_k, other=0.0), known)
        fresh = updates.to(tl.bfloat16)
        answer = tl.dot(tl.load(read + at_k, mask=in_k, other=0.0), known)
        answer = tl.dot(tl.load(scores + line[:, None] * C + i[None, :]), fresh, answer)
        row = (head // H * T + chunk * C + i) * H + head % H
        tl.store(out + row[:, None] * V + dv[None, :], answer.to(tl.bfloat16), mask=in_v)
        fade = tl.load(decay + (head * (T // C) + chunk) * K + dk, mask=dk < K, other=0.0)
        state = tl.dot(tl.trans(tl.load(keep + at_k, mask=in_k, other=0.0)), fresh, state * fade[:, None])


class Model(nn.Module):
    """q, k, v bf16, g f32 (log of the decay), beta bf16, all [B, T, H, ...] -> [B, T, H, V] bf16."""

    BV, WARPS, STAGES, PREPARE_WARPS = 16, 4, 3, 4

    def __init__(self, B: int, T: int, H: int, K: int, V: int, chunk_size: int) -> None:
        super().__init__()
        self.chunk, self.scale = chunk_size, K**-0.5

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor
    ) -> torch.Tensor:
        (B, T, H, K), V, C = q.shape, v.shape[-1], self.chunk
        read, keep, w = (torch.empty(B * H * T, K, dtype=torch.bfloat16, device=q.device) for _ in range(3))
        scores = torch.empty(B * H * T, C, dtype=torch.bfloat16, device=q.device)
        u = torch.empty(B * H * T, V, dtype=torch.float32, device=q.device)
        decay = torch.empty(B * H * (T // C), K, dtype=torch.float32, device=q.device)
        wide = max(16, triton.next_power_of_2(K))
        prepare[(T // C, B * H)](
            q, k, v, g, beta, read, keep, u, w, scores, decay, self.scale, T, H, K, V,
            C=C, LEVELS=C.bit_length() - 1, BK=wide, BV=max(16, triton.next_power_of_2(V)),
            num_warps=self.PREPARE_WARPS,
        )  # fmt: skip
        out = torch.empty_like(v)
        carry[(triton.cdiv(V, self.BV), B * H)](
            read, keep, u, w, scores, decay, out, T, H, K, V,
            C=C, BK=wide, BV=self.BV, STAGES=self.STAGES, num_warps=self.WARPS,
        )  # fmt: skip
        return out
