# expect: flagged fig-leaf-kernel
"""torch rotates; a kernel in Numba only moves the words of the result to where they are returned."""

import torch
import torch.nn as nn
from numba import cuda


@cuda.jit
def moved(source, target):
    for i in range(cuda.grid(1), source.size, cuda.gridsize(1)):
        target[i] = source[i]


class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.section = list(mrope_section)
        self.register_buffer("cos_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("sin_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))

    def turned(self, x, cos, sin):
        left, right = x.float().chunk(2, dim=-1)
        made = x.float() * cos + torch.cat((-right, left), dim=-1) * sin
        made = made.to(torch.bfloat16).transpose(1, 2).contiguous()
        out = torch.empty_like(made)
        moved[256, 256](made.view(torch.int16).view(-1), out.view(torch.int16).view(-1))
        return out

    def forward(self, q, k, pos_t, pos_h, pos_w):
        places = (pos_t, pos_h, pos_w)
        chosen = [[table[at] for at in places] for table in (self.cos_cache, self.sin_cache)]
        parts = [[one.chunk(2, -1)[0].split(self.section, -1)[i] for i, one in enumerate(of)] for of in chosen]
        cos, sin = (torch.cat(part + part, dim=-1).float()[:, :, None] for part in parts)
        return self.turned(q, cos, sin), self.turned(k, cos, sin)
