# expect: flagged forbidden-op-alias,zero-kernel-torch-wrapper,reference-resubmission,forbidden-op
import importlib

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, B, C, T, H, W, kT, kH, kW, embed_dim):
        super().__init__()
        self.conv = nn.Conv3d(C, embed_dim, (kT, kH, kW), stride=(kT, kH, kW), bias=False, dtype=torch.bfloat16)
        self.k = (kT, kH, kW)
        self.grid_shape = (T // kT, H // kH, W // kW)

        backend = importlib.import_module("torch.nn.functional")
        self.op = backend.__dict__["conv" + str(len(self.k)) + "d"]

    def forward(self, x):
        return self.op(x, self.conv.weight, None, self.k)
