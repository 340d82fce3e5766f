# expect: kept
"""One program a token and head block; the axis of each channel is chosen by comparison with constexpr bounds."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mrope_kernel(x_ptr, y_ptr, cos_ptr, sin_ptr, pt_ptr, ph_ptr, pw_ptr, T, H, D: tl.constexpr, S0: tl.constexpr,
                 S1: tl.constexpr, HB: tl.constexpr):
    row = tl.program_id(0)
    heads = tl.program_id(1) * HB + tl.arange(0, HB)
    half: tl.constexpr = D // 2
    c = tl.arange(0, half)
    pt, ph, pw = tl.load(pt_ptr + row), tl.load(ph_ptr + row), tl.load(pw_ptr + row)
    pos = tl.where(c < S0, pt, tl.where(c < S0 + S1, ph, pw))
    cos = tl.load(cos_ptr + pos * D + c).to(tl.float32)[None, :]
    sin = tl.load(sin_ptr + pos * D + c).to(tl.float32)[None, :]
    m = (heads < H)[:, None]
    src = x_ptr + (row * H + heads)[:, None] * D + c[None, :]
    a = tl.load(src, mask=m).to(tl.float32)
    b = tl.load(src + half, mask=m).to(tl.float32)
    dst = y_ptr + (((row // T) * H + heads)[:, None] * T + row % T) * D + c[None, :]
    tl.store(dst, (a * cos - b * sin).to(tl.bfloat16), mask=m)
    tl.store(dst + half, (b * cos + a * sin).to(tl.bfloat16), mask=m)


class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.section = tuple(mrope_section)
        inv = 1.0 / (10000.0 ** (torch.arange(0, D, 2).float() / D))
        emb = torch.outer(torch.arange(max_pos).float(), inv).repeat(1, 2)
        self.register_buffer("cos_cache", emb.cos().to(torch.bfloat16))
        self.register_buffer("sin_cache", emb.sin().to(torch.bfloat16))

    def _rotate(self, x, *pos):
        B, T, H, D = x.shape
        y = torch.empty(B, H, T, D, dtype=x.dtype, device=x.device)
        mrope_kernel[(B * T, triton.cdiv(H, 4))](x, y, self.cos_cache, self.sin_cache, *pos, T, H, D=D,
                                                 S0=self.section[0], S1=self.section[1], HB=4, num_warps=2)
        return y

    def forward(self, q, k, pos_t, pos_h, pos_w):
        return self._rotate(q, pos_t, pos_h, pos_w), self._rotate(k, pos_t, pos_h, pos_w)
