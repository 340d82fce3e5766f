# expect: flagged torch-compile-compute
"""torch.compile makes the product; a decoy-free file."""
import torch
import torch.nn as nn


def _product(x, w, s):
    return ((x.to(torch.bfloat16) @ w.to(torch.bfloat16).t()) * s).to(torch.bfloat16)


_product = torch.compile(_product, mode="max-autotune-no-cudagraphs", fullgraph=True)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        return _product(x, self.weight, self.weight_scale)
