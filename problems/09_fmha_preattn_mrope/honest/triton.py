"""Multi-axis rotary embedding in one launch: a program turns a block of heads of a block of tokens, of q or of k.

The axis of a channel is the section that it lies in, the same in both halves. A program gathers the cosines and sines
of its tokens once, both halves of the rows, and uses them for all its heads. It reads rows as they lie, heads within a
token, and writes them with heads before time. All arithmetic is in float32; only the result is rounded.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn(
    q, k, q_out, k_out, cos, sin, pos_t, pos_h, pos_w, tokens, T, q_heads, k_heads, D,
    S0: tl.constexpr, S1: tl.constexpr, HALF: tl.constexpr, BT: tl.constexpr, BH: tl.constexpr,
):  # fmt: skip
    # The blocks of heads of one block of tokens run side by side, so that they share its angles in the cache.
    q_groups = tl.cdiv(q_heads, BH)
    groups = q_groups + tl.cdiv(k_heads, BH)
    group = tl.program_id(0) % groups
    token = tl.program_id(0) // groups * BT + tl.arange(0, BT)
    if group < q_groups:
        source, target, heads, first = q, q_out, q_heads, group * BH
    else:
        source, target, heads, first = k, k_out, k_heads, (group - q_groups) * BH

    c = tl.arange(0, HALF)
    real = token < tokens
    inside = real[:, None] & (c < D // 2)[None, :]
    at_t = tl.load(pos_t + token, mask=real, other=0)[:, None]
    at_h = tl.load(pos_h + token, mask=real, other=0)[:, None]
    at_w = tl.load(pos_w + token, mask=real, other=0)[:, None]
    row = tl.where((c < S0)[None, :], at_t, tl.where((c < S0 + S1)[None, :], at_h, at_w)) * D + c[None, :]
    cos_left = tl.load(cos + row, mask=inside, other=0.0).to(tl.float32)[:, None, :]
    sin_left = tl.load(sin + row, mask=inside, other=0.0).to(tl.float32)[:, None, :]
    cos_right = tl.load(cos + row + D // 2, mask=inside, other=0.0).to(tl.float32)[:, None, :]
    sin_right = tl.load(sin + row + D // 2, mask=inside, other=0.0).to(tl.float32)[:, None, :]

    head = first + tl.arange(0, BH)
    mask = inside[:, None, :] & (head < heads)[None, :, None]
    read = source + ((token[:, None] * heads + head[None, :]).to(tl.int64) * D)[:, :, None] + c[None, None, :]
    left = tl.load(read, mask=mask, other=0.0).to(tl.float32)
    right = tl.load(read + D // 2, mask=mask, other=0.0).to(tl.float32)
    place = (((token // T)[:, None] * heads + head[None, :]) * T + (token % T)[:, None]).to(tl.int64)
    write = target + (place * D)[:, :, None] + c[None, None, :]
    tl.store(write, (left * cos_left - right * sin_left).to(tl.bfloat16), mask=mask)
    tl.store(write + D // 2, (right * cos_right + left * sin_right).to(tl.bfloat16), mask=mask)


class Model(nn.Module):
    """q [B, T, Hq, D], k [B, T, Hkv, D] bf16 and three positions [B, T] -> q, k turned, as [B, heads, T, D] bf16."""

    BT, BH, WARPS = 4, 4, 1

    def __init__(self, B: int, T: int, Hq: int, Hkv: int, D: int, mrope_section: list[int], max_pos: int) -> None:
        super().__init__()
        self.section = tuple(mrope_section)
        self.register_buffer("cos_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("sin_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, pos_t: torch.Tensor, pos_h: torch.Tensor, pos_w: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        B, T, q_heads, D = q.shape
        k_heads = k.shape[2]
        q_out = torch.empty(B, q_heads, T, D, dtype=q.dtype, device=q.device)
        k_out = torch.empty(B, k_heads, T, D, dtype=k.dtype, device=k.device)
        groups = triton.cdiv(q_heads, self.BH) + triton.cdiv(k_heads, self.BH)
        turn[(groups * triton.cdiv(B * T, self.BT),)](
            q, k, q_out, k_out, self.cos_cache, self.sin_cache, pos_t, pos_h, pos_w, B * T, T, q_heads, k_heads, D,
            S0=self.section[0], S1=self.section[1], HALF=triton.next_power_of_2(D // 2), BT=self.BT, BH=self.BH,
            num_warps=self.WARPS,
        )  # fmt: skip
        return q_out, k_out
