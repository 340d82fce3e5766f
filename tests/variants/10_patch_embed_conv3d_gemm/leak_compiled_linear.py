# expect: flagged torch-compile-compute
import torch
import torch.nn as nn
import torch.nn.functional as F


def _patchify(x, k):
    for axis, size in enumerate(k):
        x = x.unflatten(2 + 2 * axis, (-1, size))
    return x.permute(0, 2, 4, 6, 1, 3, 5, 7).flatten(4)


@torch.compile(mode="max-autotune-no-cudagraphs", fullgraph=True)
def _embed(x, w, k):
    return F.linear(_patchify(x, k), w).permute(0, 4, 1, 2, 3)


class Model(nn.Module):
    def __init__(self, B, C, T, H, W, kT, kH, kW, embed_dim):
        super().__init__()
        self.conv = nn.Conv3d(C, embed_dim, (kT, kH, kW), stride=(kT, kH, kW), bias=False, dtype=torch.bfloat16)
        self.k = (kT, kH, kW)
        self.grid_shape = (T // kT, H // kH, W // kW)

    def forward(self, x):
        return _embed(x, self.conv.weight.flatten(1), self.k).contiguous()
