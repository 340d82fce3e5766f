"""Eager torch, with the sections picked by an index instead of split and joined."""

import torch
import torch.nn as nn


def turned(x, cos, sin):
    x = x.transpose(1, 2).float()
    half = x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    first = left * cos[..., :half] - right * sin[..., :half]
    second = right * cos[..., half:] + left * sin[..., half:]
    return torch.cat((first, second), -1).to(torch.bfloat16).contiguous()


class Model(nn.Module):
    def __init__(self, B: int, T: int, Hq: int, Hkv: int, D: int, mrope_section: list[int], max_pos: int) -> None:
        super().__init__()
        self.section = list(mrope_section)
        self.register_buffer("cos_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("sin_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))

    def pick(self, cache, positions):
        axis = torch.repeat_interleave(torch.arange(3), torch.tensor(self.section)).repeat(2).to(cache.device)
        where = torch.stack(positions, -1)[..., axis]
        return cache[where, torch.arange(cache.shape[1], device=cache.device)].float()

    def forward(self, q, k, pos_t, pos_h, pos_w):
        positions = (pos_t, pos_h, pos_w)
        cos, sin = (self.pick(cache, positions)[:, None] for cache in (self.cos_cache, self.sin_cache))
        return turned(q, cos, sin), turned(k, cos, sin)
