# expect: flagged zero-kernel-torch-wrapper,reference-resubmission,reference-port
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.section = tuple(mrope_section)
        inv = 1.0 / (10000.0 ** (torch.arange(0, D, 2).float() / D))
        emb = torch.outer(torch.arange(max_pos).float(), inv).repeat(1, 2)
        self.register_buffer("cos_cache", emb.cos().to(torch.bfloat16))
        self.register_buffer("sin_cache", emb.sin().to(torch.bfloat16))

    def _select(self, cache, pos):
        parts = torch.stack([cache[p] for p in pos]).split(self.section * 2, dim=-1)
        return torch.cat([piece[i % 3] for i, piece in enumerate(parts)], dim=-1).unsqueeze(1)

    def forward(self, q, k, pos_t, pos_h, pos_w):
        pos = (pos_t, pos_h, pos_w)
        cos, sin = self._select(self.cos_cache, pos).float(), self._select(self.sin_cache, pos).float()
        outs = []
        for x in (q, k):
            x = x.transpose(1, 2).float()
            h = x.shape[-1] // 2
            rot = torch.cat((x[..., h:].neg(), x[..., :h]), -1)
            outs.append(torch.addcmul(x * cos, rot, sin).bfloat16())
        return tuple(outs)
