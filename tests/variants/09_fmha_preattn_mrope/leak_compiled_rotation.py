# expect: flagged torch-compile-compute
import torch
import torch.nn as nn


def _turn(x, cos, sin):
    a, b = x.transpose(1, 2).chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.section = tuple(mrope_section)
        inv = 1.0 / (10000.0 ** (torch.arange(0, D, 2).float() / D))
        emb = torch.outer(torch.arange(max_pos).float(), inv).repeat(1, 2)
        self.register_buffer("cos_cache", emb.cos().to(torch.bfloat16))
        self.register_buffer("sin_cache", emb.sin().to(torch.bfloat16))

        self._fast = None

    def _impl(self, q, k, p):
        half = self.cos_cache.shape[1] // 2
        cuts = torch.split(torch.arange(half, device=q.device), self.section)
        cos = torch.cat([self.cos_cache[p[i]][..., c] for i, c in enumerate(cuts)], -1)[:, None]
        sin = torch.cat([self.sin_cache[p[i]][..., c] for i, c in enumerate(cuts)], -1)[:, None]
        return _turn(q, cos, sin), _turn(k, cos, sin)

    def forward(self, q, k, pos_t, pos_h, pos_w):
        if self._fast is None:
            self._fast = torch.compile(self._impl, dynamic=True)
        return self._fast(q, k, (pos_t, pos_h, pos_w))
