# expect: flagged forbidden-op,forbidden-op-alias,foreign-library-compute,zero-kernel-torch-wrapper
"""Calls the library when it is there."""
import importlib

import torch
import torch.nn as nn

_kda = importlib.import_module("fla.ops." + "kda")


class Model(nn.Module):
    def __init__(self, B, T, H, K, V, chunk_size=64):
        super().__init__()
        self.scale = K**-0.5
        self.C = chunk_size
        self.register_buffer("_dummy", torch.zeros(1), persistent=False)

    def forward(self, q, k, v, g, beta):
        o, _ = _kda.chunk_kda(q, k, v, g, beta, scale=self.scale, output_final_state=False)
        return o
