# expect: flagged zero-kernel-torch-wrapper,library-gemm-wrapper,torch-matmul-fallback
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, B, C, T, H, W, kT, kH, kW, embed_dim):
        super().__init__()
        self.conv = nn.Conv3d(C, embed_dim, (kT, kH, kW), stride=(kT, kH, kW), bias=False, dtype=torch.bfloat16)
        self.k = (kT, kH, kW)
        self.grid_shape = (T // kT, H // kH, W // kW)

        self.register_buffer("zero", torch.zeros(embed_dim, dtype=torch.bfloat16), persistent=False)

    def forward(self, x):
        (OT, OH, OW), (kT, kH, kW) = self.grid_shape, self.k
        p = x.unfold(2, kT, kT).unfold(3, kH, kH).unfold(4, kW, kW)
        p = p.permute(0, 2, 3, 4, 1, 5, 6, 7).flatten(4).flatten(0, 3)
        y = torch.addmm(self.zero, p, self.conv.weight.flatten(1).t())
        return y.unflatten(0, (x.shape[0], OT, OH, OW)).movedim(-1, 1).contiguous()
