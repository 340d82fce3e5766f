"""Multi-axis rotary embedding: each section of channels turns by the angle of its own position axis."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn as nn


class Model(nn.Module):
    """q [B, T, Hq, D], k [B, T, Hkv, D] bf16 and three positions [B, T] -> q, k rotated, as [B, heads, T, D] bf16."""

    def __init__(self, B: int, T: int, Hq: int, Hkv: int, D: int, mrope_section: list[int], max_pos: int) -> None:
        super().__init__()
        self.section = list(mrope_section)
        self.register_buffer("cos_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("sin_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))

    def angles(self, cache: torch.Tensor, positions: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Rows of `cache`, whose sections are taken at the position of their axis; [B, 1, T, D]."""
        pieces = [cache[at].split(self.section * 2, dim=-1) for at in positions]
        return torch.cat([pieces[i % 3][i] for i in range(6)], dim=-1)[:, None].float()

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, pos_t: torch.Tensor, pos_h: torch.Tensor, pos_w: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        positions = (pos_t, pos_h, pos_w)
        cos, sin = self.angles(self.cos_cache, positions), self.angles(self.sin_cache, positions)
        return rotate(q, cos, sin), rotate(k, cos, sin)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """[B, T, heads, D] turned, in the half-split form, as [B, heads, T, D]."""
    x = x.transpose(1, 2).float()
    left, right = x.chunk(2, dim=-1)
    return (x * cos + torch.cat((-right, left), dim=-1) * sin).to(torch.bfloat16).contiguous()


def oracle(
    init: Mapping[str, Any], inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """The rotation in fp64, pair of channels by pair: channel c of each half turns by the angle of its own axis.

    q [B, Hq, T, D] and k [B, Hkv, T, D]. The tables are those of the state, so their rounding is no error.
    """
    q, k = (inputs[name].double().transpose(1, 2) for name in ("q", "k"))
    half = q.shape[-1] // 2
    turned_q, turned_k = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k))
    channel = 0
    for width, axis in zip(init["mrope_section"], ("pos_t", "pos_h", "pos_w")):
        low, high = slice(channel, channel + width), slice(half + channel, half + channel + width)
        channel += width
        at = inputs[axis]
        for x, out in ((q, turned_q), (k, turned_k)):
            for mine, other, sign in ((low, high, -1.0), (high, low, 1.0)):
                cos, sin = (state[name][:, mine][at].double()[:, None] for name in ("cos_cache", "sin_cache"))
                out[..., mine] = x[..., mine] * cos + sign * x[..., other] * sin
    return turned_q, turned_k
