# expect: flagged identity-keyed-input-cache,pointer-keyed-stale-state
"""The gathered angles are kept while the position tensors stay the same objects."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def apply_angles(x, y, cos, sin, T, H, D: tl.constexpr):
    row, h = tl.program_id(0), tl.program_id(1)
    half: tl.constexpr = D // 2
    c = tl.arange(0, half)
    co = tl.load(cos + row * half + c)
    si = tl.load(sin + row * half + c)
    src = x + (row * H + h) * D + c
    a, b = tl.load(src).to(tl.float32), tl.load(src + half).to(tl.float32)
    dst = y + (((row // T) * H + h) * T + row % T) * D + c
    tl.store(dst, (a * co - b * si).to(tl.bfloat16))
    tl.store(dst + half, (b * co + a * si).to(tl.bfloat16))


class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.section = tuple(mrope_section)
        inv = 1.0 / (10000.0 ** (torch.arange(0, D, 2).float() / D))
        emb = torch.outer(torch.arange(max_pos).float(), inv).repeat(1, 2)
        self.register_buffer("cos_cache", emb.cos().to(torch.bfloat16))
        self.register_buffer("sin_cache", emb.sin().to(torch.bfloat16))

        self._seen = None

    def _angles(self, *pos):
        if self._seen is None or any(a is not b for a, b in zip(self._seen[0], pos)):
            axis = torch.repeat_interleave(torch.arange(3), torch.tensor(self.section)).to(pos[0].device)
            where = torch.stack(pos, -1)[..., axis]
            half = where.shape[-1]
            cols = torch.arange(half, device=where.device)
            self._seen = (pos, self.cos_cache[where, cols].float(), self.sin_cache[where, cols].float())
        return self._seen[1:]

    def forward(self, q, k, pos_t, pos_h, pos_w):
        cos, sin = self._angles(pos_t, pos_h, pos_w)
        out = []
        for x in (q, k):
            B, T, H, D = x.shape
            y = torch.empty(B, H, T, D, dtype=x.dtype, device=x.device)
            apply_angles[(B * T, H)](x, y, cos, sin, T, H, D=D)
            out.append(y)
        return tuple(out)
