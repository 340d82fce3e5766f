import torch
import torch.nn as nn


@torch.compile(mode="max-autotune")
def product(x, w):
    return torch.einsum("mk,nk->mn", x, w)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.bfloat16))

    def forward(self, x):
        return product(x, self.weight)
