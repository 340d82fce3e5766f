# expect: flagged forbidden-op-alias
"""The vendor product under another name."""
import functools

import torch
import torch.nn as nn


@functools.cache
def _resolve():
    space = torch.ops.aten
    for part in ("_scaled", "mm"):
        pass
    return getattr(space, "_".join(("", "scaled", "mm")))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        pad = -x.shape[1] % 16
        w = self.weight
        if pad:
            x = torch.nn.functional.pad(x.view(torch.uint8), (0, pad)).view(torch.float8_e4m3fn)
            w = torch.nn.functional.pad(w.view(torch.uint8), (0, pad)).view(torch.float8_e4m3fn)
        one = torch.ones(x.shape[0], 1, device=x.device)
        return _resolve()(x, w.t(), one, self.weight_scale.view(1, -1), None, None, torch.bfloat16)
