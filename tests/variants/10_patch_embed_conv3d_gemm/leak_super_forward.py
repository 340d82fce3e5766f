# expect: flagged reference-resubmission,zero-kernel-torch-wrapper,forbidden-op,library-gemm-wrapper
import torch
import torch.nn as nn


class PatchConv(nn.Conv3d):
    """Looks like its own module; forward is the library's."""

    def forward(self, x):
        return super().forward(x.contiguous(memory_format=torch.channels_last_3d)).contiguous()


class Model(nn.Module):
    def __init__(self, B, C, T, H, W, kT, kH, kW, embed_dim):
        super().__init__()
        self.conv = PatchConv(C, embed_dim, (kT, kH, kW), stride=(kT, kH, kW), bias=False, dtype=torch.bfloat16)

    def forward(self, x):
        return self.conv(x)
